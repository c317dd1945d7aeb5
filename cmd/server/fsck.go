package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/offline/check"
	"hindsight/internal/store"
)

type report struct {
	Group    uint32          `json:"group,omitempty"`
	DataDir  string          `json:"data_dir"`
	Findings []check.Finding `json:"findings"`
	check.Checked
	// ofPending is the number, from 1 on, of the finding about the pending predictions, 0
	// without one.
	ofPending int
}

// fsck checks a data directory that no server has open. With --truncate it then removes what
// prevents recovery. It exits with exitFailed if it found a problem, and with exitBadCall if
// the check failed.
func fsck(ctx context.Context, call call) int {
	s := newSubcommand("fsck")
	truncate := s.flags.Bool("truncate", false, "")
	return s.run(call, func(c config.Config, p *progress) (outcome, error) {
		groups, err := groupsOf(c.DataDir)
		if err != nil {
			return nil, callError{err}
		}
		all, problems := []*report{}, error(nil)
		for _, group := range groups {
			r, err := examine(ctx, store.GroupDirectory(c.DataDir, group.Number), *truncate, p)
			if err != nil {
				return nil, callError{group.Wrap(err)}
			}
			r.Group = group.Number
			all = append(all, &r)
			if len(r.Findings) > 0 {
				problems = errProblems
			}
		}
		return outcomeOf(groups, all), problems
	})
}

func examine(ctx context.Context, dir string, truncate bool, p *progress) (report, error) {
	r := report{DataDir: dir, Findings: []check.Finding{}}
	disk, err := r.inspect(dir, truncate) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil || disk == nil {
		return r, err
	}
	damaged := false                  // The pending predictions can be opened, but have a damaged table.
	disk.Verify(func(problem error) { //nolint:contextcheck // A table is checked whole.
		if errors.Is(problem, store.ErrPending) {
			damaged = true
			r.foundPending(problem)
			return
		}
		r.Findings = append(r.Findings, check.Finding{
			Place: "the database's files", Problem: problem.Error(), Rejected: true,
			Meaning: "what is in them cannot be read; restore the directory from a copy, or import models into a new one",
		})
	}, p.verified)
	findings, checked, err := check.Store(ctx, disk, check.Options{Report: p.checked})
	p.end(fmt.Sprintf("2/2 models: %d", checked.Models))
	if ctx.Err() != nil {
		return r, errors.Join(err, disk.Close())
	}
	r.Findings, r.Checked = append(r.Findings, findings...), checked
	unreadable := err != nil
	if unreadable {
		r.Findings = append(r.Findings, check.Finding{
			Place: "the database", Problem: err.Error(), Rejected: true,
			Meaning: "it cannot be read through; restore the directory from a copy, or import models into a new one",
		})
	}
	// With findings an error of Close adds nothing.
	if err := disk.Close(); err != nil && len(r.Findings) == 0 {
		return r, err
	}
	if !truncate || unreadable || (len(findings) == 0 && r.ofPending == 0) {
		return r, nil //nolint:nilerr // The error is a finding.
	}
	r.Findings = r.Findings[:len(r.Findings)-len(findings)]
	return r, r.repair(ctx, dir, damaged)
}

// inspect opens a directory for reading. If that fails it adds a finding and returns nil. With
// truncate it cuts a write-ahead log that prevents opening.
func (r *report) inspect(dir string, truncate bool) (*store.Store, error) {
	disk, waiting, err := store.Inspect(dir, store.Options{})
	if tail := new(store.TailError); errors.As(err, &tail) {
		f := check.Finding{
			Place: tail.Log, Problem: err.Error(), Rejected: true,
			Meaning: "the server does not start, and nothing else was checked; with the log cut at this byte it would go on without the later commits, acknowledged ones among them",
		}
		if truncate {
			if err := store.CutTail(dir, store.Options{}); err != nil {
				return nil, fmt.Errorf("repair: %w", err)
			}
			f.Repaired = fmt.Sprintf("cut at byte %d", tail.Whole)
			f.Meaning = "the server goes on without the later commits, acknowledged ones among them"
		}
		r.Findings = append(r.Findings, f)
		if !truncate {
			return nil, nil //nolint:nilnil // The error is a finding.
		}
		disk, waiting, err = store.Inspect(dir, store.Options{})
	}
	switch {
	case errors.Is(err, store.ErrInUse), errors.Is(err, store.ErrNotThere), errors.Is(err, store.ErrVersion), errors.Is(err, store.ErrSwapping):
		return nil, err
	case err != nil:
		r.Findings = append(r.Findings, check.Finding{
			Place: dir, Problem: err.Error(), Rejected: true,
			Meaning: "the server does not start; restore the directory from a copy, or import models into a new one",
		})
		return nil, nil //nolint:nilerr,nilnil // The error is a finding.
	}
	if waiting != nil {
		r.foundPending(waiting)
	}
	return disk, nil
}

func (r *report) foundPending(problem error) {
	if r.ofPending > 0 {
		return
	}
	r.Findings = append(r.Findings, check.Finding{
		Place: "the pending predictions", Problem: problem.Error(),
		Meaning: "the server cuts off what a power cut left, or sets them aside, when it starts or finds the damage: labels that come for them are not found",
	})
	r.ofPending = len(r.Findings)
}

// repair repairs the directory, and adds the findings of check.Store. It sets damaged pending
// predictions aside.
func (r *report) repair(ctx context.Context, dir string, damaged bool) error {
	disk, err := store.Open(dir, store.Options{PendingAside: damaged}) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil {
		return fmt.Errorf("open for repair: %w", err)
	}
	if r.ofPending > 0 {
		f := &r.Findings[r.ofPending-1]
		f.Repaired = "the damaged end is cut off"
		if aside := disk.Aside(); aside != "" {
			f.Repaired = "set aside as " + aside
		}
	}
	repaired, _, err := check.Store(ctx, disk, check.Options{Repair: true})
	if err := errors.Join(err, disk.Close()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	r.Findings = append(r.Findings, repaired...)
	return nil
}

func (p *progress) verified(at store.Verified) {
	p.report(func() string { return fmt.Sprintf("1/2 tables: %d records, %s", at.Records, megabytes(at.Bytes)) })
}

func (p *progress) checked(models int) {
	p.report(func() string { return fmt.Sprintf("2/2 models: %d", models) })
}

func (r *report) write(w io.Writer) {
	for _, f := range r.Findings {
		where := f.Place
		if f.Model != "" {
			where = fmt.Sprintf("model %q, %s", f.Model, f.Place)
		}
		fmt.Fprintf(w, "%s:\n  problem: %s\n  meaning: %s\n", where, f.Problem, f.Meaning)
		if f.Repaired != "" {
			fmt.Fprintf(w, "  repaired: %s\n", f.Repaired)
		}
	}
	fmt.Fprintf(w, "%s: %d models, %d snapshots, %d observations, %d remembered ids, %d pending predictions, %d aliases: %d problems\n",
		r.DataDir, r.Models, r.Snapshots, r.Observations, r.IDs, r.Pending, r.Aliases, len(r.Findings))
}
