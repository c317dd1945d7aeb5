package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/engine/storage"
	"hindsight/internal/offline/check"
	"hindsight/internal/store"
)

// report is what fsck prints with --json.
type report struct {
	DataDir  string          `json:"data_dir"`
	Findings []check.Finding `json:"findings"`
	check.Checked
	// ofWaiting is the number, from 1 on, of the finding about the predictions that wait.
	ofWaiting int
}

// fsck checks a data directory that no server has open. With --truncate it then
// removes what keeps models from being recovered. The exit code is 0 when nothing
// was found, 1 when something was, 2 when the check could not be done.
func fsck(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	own := pflag.NewFlagSet("fsck", pflag.ContinueOnError)
	asJSON := own.Bool("json", false, "")
	truncate := own.Bool("truncate", false, "")
	asked := own.Bool("progress", false, "")
	c, err := config.Load(args, env, own)
	if errors.Is(err, config.ErrHelp) {
		fmt.Fprint(stdout, config.Usage())
		return exitOK
	}
	var r report
	if err == nil {
		r, err = examine(ctx, c.DataDir, *truncate, newProgress(stderr, *asked))
	}
	if err != nil {
		fmt.Fprintf(stderr, "hindsight-server: fsck: %v\n", err)
		return exitBadCall
	}
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			fmt.Fprintf(stderr, "hindsight-server: fsck: %v\n", err)
			return exitBadCall
		}
	} else {
		r.write(stdout)
	}
	if len(r.Findings) > 0 {
		return exitFailed
	}
	return exitOK
}

// examine checks first and repairs afterwards, so that a directory without problems
// is not changed.
func examine(ctx context.Context, dir string, truncate bool, p *progress) (report, error) {
	r := report{DataDir: dir, Findings: []check.Finding{}}
	disk, err := r.inspect(dir, truncate)
	if err != nil || disk == nil {
		return r, err
	}
	ofTables, ofModels := p.watched()
	damaged := false                  // The predictions that wait can be opened, and are damaged all the same.
	disk.Verify(func(problem error) { //nolint:contextcheck // A table is checked whole.
		if errors.Is(problem, store.ErrPending) {
			damaged = true
			r.foundWaiting(problem)
			return
		}
		r.Findings = append(r.Findings, check.Finding{
			Place: "the database's files", Problem: problem.Error(), Refused: true,
			Meaning: "what is in them cannot be read; restore the directory from a copy, or import models into a new one",
		})
	}, ofTables)
	findings, checked, err := check.Store(ctx, disk, check.Options{Report: ofModels, Size: diskBytes})
	p.end(fmt.Sprintf("2/2 models: %d of %d", checked.Models, checked.Models))
	if ctx.Err() != nil {
		return r, errors.Join(err, disk.Close())
	}
	r.Findings, r.Checked = append(r.Findings, findings...), checked
	unreadable := err != nil
	if unreadable {
		r.Findings = append(r.Findings, check.Finding{
			Place: "the database", Problem: err.Error(), Refused: true,
			Meaning: "it cannot be read through; restore the directory from a copy, or import models into a new one",
		})
	}
	// An error of closing adds nothing to findings.
	if err := disk.Close(); err != nil && len(r.Findings) == 0 {
		return r, err
	}
	if !truncate || unreadable || (len(findings) == 0 && r.ofWaiting == 0) {
		return r, nil //nolint:nilerr // It is a finding.
	}
	r.Findings = r.Findings[:len(r.Findings)-len(findings)]
	return r, r.repair(ctx, dir, damaged)
}

// inspect opens a directory to be looked at. It is nil if that fails, for which there is a
// finding. With truncate a write-ahead log is cut that keeps the directory from opening.
func (r *report) inspect(dir string, truncate bool) (*store.Store, error) {
	disk, waiting, err := store.Inspect(dir, store.Options{})
	if tail := new(store.TailError); errors.As(err, &tail) {
		f := check.Finding{
			Place: tail.Log, Problem: err.Error(), Refused: true,
			Meaning: "the server does not start, and nothing else was checked; with the log cut there it would go on without the commits behind, acknowledged ones among them",
		}
		if truncate {
			if err := store.CutTail(dir, store.Options{}); err != nil {
				return nil, fmt.Errorf("repair: %w", err)
			}
			f.Repaired = fmt.Sprintf("cut at byte %d", tail.Whole)
			f.Meaning = "the server goes on without the commits behind, acknowledged ones among them"
		}
		r.Findings = append(r.Findings, f)
		if !truncate {
			return nil, nil //nolint:nilnil // It is a finding.
		}
		disk, waiting, err = store.Inspect(dir, store.Options{})
	}
	switch {
	case errors.Is(err, store.ErrInUse), errors.Is(err, store.ErrNotThere), errors.Is(err, store.ErrNewer):
		return nil, err
	case err != nil:
		r.Findings = append(r.Findings, check.Finding{
			Place: dir, Problem: err.Error(), Refused: true,
			Meaning: "the server does not start; restore the directory from a copy, or import models into a new one",
		})
		return nil, nil //nolint:nilerr,nilnil // It is a finding.
	}
	if waiting != nil {
		r.foundWaiting(waiting)
	}
	return disk, nil
}

// foundWaiting adds the one finding about the predictions that wait.
func (r *report) foundWaiting(problem error) {
	if r.ofWaiting > 0 {
		return
	}
	r.Findings = append(r.Findings, check.Finding{
		Place: "the predictions that wait", Problem: problem.Error(),
		Meaning: "the server cuts off what a power cut left, or sets them aside, when it starts or finds the damage: labels that come for them are not found",
	})
	r.ofWaiting = len(r.Findings)
}

// repair repairs what can be, and adds what check.Store finds. The predictions that wait
// are set aside if they are damaged.
func (r *report) repair(ctx context.Context, dir string, damaged bool) error {
	disk, err := store.Open(dir, store.Options{PendingAside: damaged}) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil {
		return fmt.Errorf("open for repair: %w", err)
	}
	if r.ofWaiting > 0 {
		f := &r.Findings[r.ofWaiting-1]
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

// watched are the functions that a check tells its progress; nil where nobody looks,
// since an estimate of what is left costs time.
func (p *progress) watched() (tables func(store.Verified), models func(check.Progress)) {
	if p == nil {
		return nil, nil
	}
	return p.verified, p.checked
}

// verified tells how far the reading of the tables is.
func (p *progress) verified(at store.Verified) {
	p.tell(func() string {
		return fmt.Sprintf("1/2 tables: %d records, %s, %.0f %%", at.Records, megabytes(at.Bytes), 100*min(at.Share, 1))
	})
}

// checked tells how far the recovery of the models is.
func (p *progress) checked(at check.Progress) {
	p.tell(func() string {
		return fmt.Sprintf("2/2 models: %d of %d, %d records, %s, %.0f %%",
			at.Models, at.TotalModels, at.Records, megabytes(at.Bytes), 100*min(at.Share, 1))
	})
}

// diskBytes is what is kept of a model.
func diskBytes(m storage.Model) int64 {
	if kept, ok := m.(*store.Model); ok {
		return kept.DiskBytes()
	}
	return 0
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
	fmt.Fprintf(w, "%s: %d models, %d snapshots, %d observations, %d remembered ids, %d predictions that wait, %d aliases: %d problems\n",
		r.DataDir, r.Models, r.Snapshots, r.Observations, r.IDs, r.Pending, r.Aliases, len(r.Findings))
}
