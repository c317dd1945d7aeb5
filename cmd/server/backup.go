package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/offline/check"
	"hindsight/internal/store"
)

type backedUp struct {
	Group uint32 `json:"group,omitempty"`
	// Skipped is why this server made no backup of the group, if another server does.
	Skipped        string  `json:"skipped,omitempty"`
	Backup         string  `json:"backup,omitempty"`
	Models         int     `json:"models"`
	Files          int     `json:"files"`
	Bytes          int64   `json:"bytes"`
	NewFiles       int     `json:"new_files"`
	NewBytes       int64   `json:"new_bytes"`
	Held           float64 `json:"checkpoint_seconds"`
	Seconds        float64 `json:"seconds"`
	RemovedBackups int     `json:"removed_backups"`
	RemovedFiles   int     `json:"removed_files"`
	RemovedBytes   int64   `json:"removed_bytes"`
	// Stopped: the directory belongs to a stopped server of a cluster. Unapplied counts the changes that only the log of
	// the server has, so that the backup lacks them.
	Stopped   bool `json:"stopped,omitempty"`
	Unapplied int  `json:"unapplied,omitempty"`
}

func (b *backedUp) write(w io.Writer) {
	writeGroup(w, b.Group)
	if b.Skipped != "" {
		fmt.Fprintln(w, "skipped:", b.Skipped)
		return
	}
	fmt.Fprintf(w, "backup %s: %d models, %d files of %s; %d files of %s were new; checkpoint in %.2f s, all in %.2f s\n",
		b.Backup, b.Models, b.Files, megabytes(b.Bytes), b.NewFiles, megabytes(b.NewBytes), b.Held, b.Seconds)
	if b.RemovedBackups > 0 || b.RemovedFiles > 0 {
		fmt.Fprintf(w, "removed %d older backups and %d files of %s\n", b.RemovedBackups, b.RemovedFiles, megabytes(b.RemovedBytes))
	}
	if b.Stopped {
		fmt.Fprintf(w, "warning: the backup is of one stopped server of a cluster: it lacks what the other servers have acknowledged "+
			"since, and %d changes of the server's own log: start the server, and back up again\n", b.Unapplied)
	}
}

// backUp backs up the data directory, also while a server has it open.
func backUp(ctx context.Context, call call) int {
	s := newSubcommand("backup")
	to := s.flags.String("to", "", "")
	keep := s.flags.Int("keep", 0, "")
	return s.run(call, func(c config.Config, p *progress) (outcome, error) {
		switch {
		case *to == "":
			return nil, usagef("--to is missing: a directory, or the URL of a bucket")
		case *keep < 0:
			return nil, usagef("--keep: got %d, want 0 (all) or more", *keep)
		}
		if err := checkOutside(*to, c.DataDir); err != nil {
			return nil, usagef("--to: %w", err)
		}
		groups, err := groupsOf(c.DataDir)
		groups = slices.DeleteFunc(groups, func(g backup.Group) bool { return g.Number == 0 && g.Of > 0 })
		all := []*backedUp{}
		for _, group := range groups {
			taken, failed := take(ctx, c.DataDir, *to, group, *keep, p)
			if taken != nil {
				all = append(all, taken)
			}
			err = errors.Join(err, group.Wrap(failed))
		}
		return outcomeOf(groups, all), err
	})
}

// take backs up a group. The outcome is nil if no backup was made.
func take(ctx context.Context, dir, to string, group backup.Group, keep int, p *progress) (*backedUp, error) {
	place, err := backup.Open(group.Place(to), true)
	if err != nil {
		return nil, err
	}
	out, err := takeInto(ctx, place, group, keep, func(ctx context.Context) (*checkpoint, error) { return checkpointOf(ctx, dir, group.Number) }, p)
	if out == nil && errors.Is(err, errMoved) {
		return &backedUp{Group: group.Number, Skipped: err.Error()}, nil
	}
	return out, err
}

// checkOutside rejects a place inside the data directory, with which it would be lost.
func checkOutside(place, dir string) error {
	if inside, err := backup.Within(place, dir); err == nil && inside {
		return fmt.Errorf("%s is in the data directory and would be lost with it", place)
	}
	return nil
}

// takeInto copies the checkpoint that holdCheckpoint makes, and then removes all backups but
// the newest keep; 0 removes none. The outcome is nil if no backup was made.
func takeInto(
	ctx context.Context, place *backup.Place, group backup.Group, keep int, holdCheckpoint func(context.Context) (*checkpoint, error), p *progress,
) (_ *backedUp, err error) {
	started := time.Now()
	at, err := holdCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	out := &backedUp{Group: group.Number, Held: time.Since(started).Seconds(), Stopped: at.stopped, Unapplied: at.unapplied}
	defer func() { err = errors.Join(err, at.release()) }()
	taken, err := copyOut(at, place, backup.Manifest{Group: group, Created: backup.Now(started), Version: version}, p)
	if err != nil {
		return nil, at.because(err)
	}
	m := taken.Manifest
	out.Backup, out.Models, out.Files, out.Bytes = m.Name, len(m.Models), len(m.Files), m.Bytes()
	out.NewFiles, out.NewBytes = taken.NewFiles, taken.NewBytes
	if keep > 0 {
		retired, err := place.Retain(at.gone, keep) //nolint:contextcheck // It ends with ctx and with the checkpoint.
		out.RemovedBackups, out.RemovedFiles, out.RemovedBytes = retired.Backups, retired.Files, retired.Bytes
		if err != nil {
			return out, fmt.Errorf("the backup %s was taken, older backups were not removed: %w", m.Name, at.because(err))
		}
	}
	out.Seconds = time.Since(started).Seconds()
	return out, nil
}

// copyOut copies a checkpoint to a place. It returns when the checkpoint is gone.
func copyOut(at *checkpoint, place *backup.Place, about backup.Manifest, p *progress) (backup.Taken, error) {
	models, identity, err := modelsOf(at.gone, at.directory, store.Options{})
	if err != nil {
		return backup.Taken{}, fmt.Errorf("the checkpoint: %w", err)
	}
	about.Models = models
	// Place.Retain removes files that no manifest names. Take is safe from it while the one
	// checkpoint of the directory exists.
	return place.Take(at.gone, identity, at.directory, about, p.copied)
}

func (p *progress) copied(at backup.Progress) {
	p.report(func() string {
		return fmt.Sprintf("%d of %d files, %s of %s, %s",
			at.Files, at.TotalFiles, megabytes(at.Bytes), megabytes(at.TotalBytes), percent(at.Bytes, at.TotalBytes))
	})
}

// modelsOf returns the models and the identity of a directory that no server has open.
func modelsOf(ctx context.Context, dir string, o store.Options) (_ []backup.Model, identity string, err error) {
	disk, waiting, err := store.Inspect(dir, o) //nolint:contextcheck // A directory is opened whole or not at all.
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if waiting != nil {
		return nil, "", fmt.Errorf("the pending predictions: %w", waiting)
	}
	models, err := check.Models(ctx, disk)
	if err == nil {
		identity, err = disk.Identity()
	}
	out := make([]backup.Model, 0, len(models))
	for _, m := range models {
		out = append(out, backup.Model(m))
	}
	return out, identity, err
}
