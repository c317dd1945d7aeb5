package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/offline/pitr"
	"hindsight/internal/store"
)

type restored struct {
	Group   uint32       `json:"group,omitempty"`
	DataDir string       `json:"data_dir,omitempty"`
	Backup  string       `json:"backup,omitempty"`
	At      *time.Time   `json:"at,omitempty"`
	Files   int          `json:"files"`
	Bytes   int64        `json:"bytes"`
	Models  int          `json:"models"`
	Moment  *pitr.Report `json:"moment,omitempty"`
	Seconds float64      `json:"seconds"`
}

func (r *restored) write(w io.Writer) {
	if r.Moment != nil {
		for _, m := range r.Moment.Models {
			switch {
			case m.Removed:
				fmt.Fprintf(w, "model %q: removed, it was created later\n", m.ID)
			case m.Undone > 0 || m.Undeleted:
				fmt.Fprintf(w, "model %q: at sequence %d, %d observations undone%s\n", m.ID, m.Sequence, m.Undone, map[bool]string{true: ", brought back"}[m.Undeleted])
			}
		}
		for _, a := range r.Moment.Aliases {
			fmt.Fprintf(w, "alias %q: names %q\n", a.Name, a.Model)
		}
	}
	writeGroup(w, r.Group)
	fmt.Fprintf(w, "restored %s of %s: %d models, %d files of %s in %.2f s\n", r.DataDir, r.Backup, r.Models, r.Files, megabytes(r.Bytes), r.Seconds)
}

func restore(ctx context.Context, call call) int {
	s := newSubcommand("restore")
	which := s.selection()
	return s.run(call, func(c config.Config, p *progress) (outcome, error) {
		at, err := which.time()
		switch {
		case err != nil:
			return nil, err
		case *which.from == "":
			return nil, usagef("--from is missing: a directory, or the URL of a bucket")
		case *which.list:
			return which.names(ctx)
		}
		return restoreAll(ctx, c.DataDir, which, at, p)
	})
}

func restoreAll(ctx context.Context, dir string, which selection, at time.Time, p *progress) (outcome, error) {
	sources, err := which.sources(ctx, at)
	if err != nil {
		return nil, err
	}
	all, groups := []*restored{}, []backup.Group{}
	err = fillDirectory(dir, func() error {
		for _, from := range sources {
			r, err := restoreGroup(ctx, dir, from, at, p)
			if err != nil {
				return from.m.Group.Wrap(err)
			}
			all, groups = append(all, r), append(groups, from.m.Group)
		}
		if groups[0] == (backup.Group{}) {
			return nil
		}
		return setGroups(dir, len(groups)) //nolint:contextcheck // A directory is opened whole or not at all.
	})
	if err != nil {
		return nil, err
	}
	return outcomeOf(groups, all), nil
}

func restoreGroup(ctx context.Context, dir string, from source, at time.Time, p *progress) (_ *restored, err error) {
	started, m := time.Now(), from.m
	r := &restored{Group: m.Group.Number, Backup: m.Name, Files: len(m.Files), Bytes: m.Bytes(), Models: len(m.Models)}
	r.DataDir = store.GroupDirectory(dir, r.Group)
	if m.Group.Number > 0 {
		if err := os.MkdirAll(r.DataDir, restoredMode); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
		if err := os.WriteFile(filepath.Join(r.DataDir, "LOCK"), nil, restoredFileMode); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	if err := fetch(ctx, from, r.DataDir, p); err != nil {
		return nil, err
	}
	if !at.IsZero() {
		r.At = &at
		if r.Moment, err = rewindTo(ctx, r.DataDir, at); err != nil {
			return nil, err
		}
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

var errDamaged = errors.New("the backup is damaged and nothing was restored")

const namedDamages = 10

// fetch writes the files of a backup, and checks the sequences of its models.
func fetch(ctx context.Context, from source, dir string, p *progress) error {
	m := from.m
	damaged, err := from.Fetch(ctx, m, dir, p.copied)
	if err != nil {
		return err
	}
	p.end(fmt.Sprintf("%d files fetched", len(m.Files)))
	if len(damaged) > 0 {
		err := fmt.Errorf("%w: %d of %d files", errDamaged, len(damaged), len(m.Files))
		for _, d := range damaged[:min(len(damaged), namedDamages)] {
			err = fmt.Errorf("%w; %s: %s", err, d.Path, d.Problem)
		}
		return err
	}
	found, _, err := modelsOf(ctx, dir, store.Options{Restoring: true})
	if err != nil {
		return err
	}
	if !slices.Equal(found, m.Models) {
		return fmt.Errorf("%w: its models differ from its manifest", errDamaged)
	}
	return nil
}

func rewindTo(ctx context.Context, dir string, at time.Time) (*pitr.Report, error) {
	disk, err := store.Open(dir, store.Options{Restoring: true}) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil {
		return nil, err
	}
	report, err := pitr.Restore(ctx, disk, at)
	if err := errors.Join(err, disk.Close()); err != nil {
		return nil, fmt.Errorf("--at %s: %w", at.Format(time.RFC3339Nano), err)
	}
	return &report, nil
}
