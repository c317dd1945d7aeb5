package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
)

type verified struct {
	Group  uint32 `json:"group,omitempty"`
	Backup string `json:"backup"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Damaged are the damaged files. Fsck is nil if there is one.
	Damaged []backup.Damage `json:"damaged"`
	Fsck    *report         `json:"fsck,omitempty"`
	Seconds float64         `json:"seconds"`
}

func (v *verified) write(w io.Writer) {
	for _, d := range v.Damaged {
		fmt.Fprintf(w, "%s: %s\n", d.Path, d.Problem)
	}
	if v.Fsck != nil {
		v.Fsck.write(w)
	}
	writeGroup(w, v.Group)
	fmt.Fprintf(w, "backup %s: %d files of %s, %d damaged; checked in %.2f s\n", v.Backup, v.Files, megabytes(v.Bytes), len(v.Damaged), v.Seconds)
}

// verify checks the digests of a backup, and runs fsck on its files in a temporary directory.
func verify(ctx context.Context, call call) int {
	s := newSubcommand("verify")
	which := s.selection()
	return s.run(call, func(_ config.Config, p *progress) (outcome, error) {
		switch {
		case *which.from == "":
			return nil, usagef("--from is missing: a directory, or the URL of a bucket")
		case *which.at != "":
			return nil, usagef("--at is of restore; name the backup by --backup")
		case *which.list:
			return which.names(ctx)
		}
		sources, err := which.sources(ctx, time.Time{})
		if err != nil {
			return nil, err
		}
		all, groups, problems := []*verified{}, []backup.Group{}, error(nil)
		for _, from := range sources {
			v, err := verifyBackup(ctx, from, p)
			if v == nil {
				return nil, from.m.Group.Wrap(err)
			}
			all, groups, problems = append(all, v), append(groups, from.m.Group), cmp.Or(problems, err)
		}
		return outcomeOf(groups, all), problems
	})
}

func verifyBackup(ctx context.Context, from source, p *progress) (_ *verified, err error) {
	started, m := time.Now(), from.m
	dir, err := os.MkdirTemp("", "hindsight-verify-")
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	v := &verified{Group: m.Group.Number, Backup: m.Name, Files: len(m.Files), Bytes: m.Bytes(), Damaged: []backup.Damage{}}
	damaged, err := from.Fetch(ctx, m, dir, p.copied)
	if err != nil {
		return nil, err
	}
	p.end(fmt.Sprintf("%d files fetched", len(m.Files)))
	if v.Damaged = append(v.Damaged, damaged...); len(damaged) > 0 {
		v.Seconds = time.Since(started).Seconds()
		return v, errProblems
	}
	if err := os.WriteFile(dir+"/LOCK", nil, restoredFileMode); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	r, err := examine(ctx, dir, false, p)
	if err != nil {
		return nil, err
	}
	r.DataDir = m.Name
	v.Fsck, v.Seconds = &r, time.Since(started).Seconds()
	if len(r.Findings) > 0 {
		return v, errProblems
	}
	return v, nil
}
