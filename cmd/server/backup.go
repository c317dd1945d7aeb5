package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/offline/check"
	"hindsight/internal/store"
)

// subcommand is a command with flags of its own beside the settings.
type subcommand struct {
	name string
	// own are its flags.
	own *pflag.FlagSet
	// json and progress are flags that all have.
	json, progress *bool
}

func newSubcommand(name string) *subcommand {
	own := pflag.NewFlagSet(name, pflag.ContinueOnError)
	return &subcommand{name: name, own: own, json: own.Bool("json", false, ""), progress: own.Bool("progress", false, "")}
}

// errUsage is a call that is wrong.
var errUsage = errors.New("usage")

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errUsage, fmt.Errorf(format, args...))
}

// run reads the flags and does the work. What it answers is printed: as JSON, or by its
// write. The exit code is 0 if the work was done and found nothing wrong, 1 if it was
// not or did, 2 if the call is wrong.
func (s *subcommand) run(
	args []string, env func(string) (string, bool), stdout, stderr io.Writer,
	work func(config.Config, *progress) (outcome, error),
) int {
	c, err := config.Load(args, env, s.own)
	if errors.Is(err, config.ErrHelp) {
		fmt.Fprint(stdout, config.Usage())
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "hindsight-server: %s: %v\n", s.name, err)
		return exitBadCall
	}
	done, err := work(c, newProgress(stderr, *s.progress))
	if done != nil {
		if *s.json {
			encoder := json.NewEncoder(stdout)
			encoder.SetIndent("", "  ")
			err = errors.Join(err, encoder.Encode(done))
		} else {
			done.write(stdout)
		}
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "hindsight-server: %s: %v\n", s.name, err)
		return exitBadCall
	case err != nil:
		fmt.Fprintf(stderr, "hindsight-server: %s: %v\n", s.name, err)
		return exitFailed
	case done != nil && !done.well():
		return exitFailed
	}
	return exitOK
}

// outcome is what a command answers.
type outcome interface {
	write(w io.Writer)
	// well tells whether nothing was found that is wrong.
	well() bool
}

// backedUp is what backup answers.
type backedUp struct {
	Backup    string  `json:"backup"`
	Models    int     `json:"models"`
	Files     int     `json:"files"`
	Bytes     int64   `json:"bytes"`
	NewFiles  int     `json:"new_files"`
	NewBytes  int64   `json:"new_bytes"`
	Held      float64 `json:"checkpoint_seconds"`
	Seconds   float64 `json:"seconds"`
	Backups   int     `json:"removed_backups"`
	Removed   int     `json:"removed_files"`
	RemovedBy int64   `json:"removed_bytes"`
}

func (b *backedUp) well() bool { return true }

func (b *backedUp) write(w io.Writer) {
	fmt.Fprintf(w, "backup %s: %d models, %d files of %s; %d files of %s were new; checkpoint in %.2f s, all in %.2f s\n",
		b.Backup, b.Models, b.Files, megabytes(b.Bytes), b.NewFiles, megabytes(b.NewBytes), b.Held, b.Seconds)
	if b.Backups > 0 || b.Removed > 0 {
		fmt.Fprintf(w, "removed %d older backups and %d files of %s\n", b.Backups, b.Removed, megabytes(b.RemovedBy))
	}
}

// backUp copies the data directory to a place, also while a server has it open.
func backUp(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	s := newSubcommand("backup")
	to := s.own.String("to", "", "")
	keep := s.own.Int("keep", 0, "")
	return s.run(args, env, stdout, stderr, func(c config.Config, p *progress) (outcome, error) {
		switch {
		case *to == "":
			return nil, usagef("--to is missing: a directory, or the URL of a bucket")
		case *keep < 0:
			return nil, usagef("--keep: got %d, want 0 (all) or more", *keep)
		}
		return take(ctx, c.DataDir, *to, *keep, p)
	})
}

func take(ctx context.Context, dir, to string, keep int, p *progress) (_ outcome, err error) {
	if err := checkOutside(to, dir); err != nil {
		return nil, usagef("--to: %w", err)
	}
	place, err := backup.Open(ctx, to, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	out, err := takeInto(ctx, place, keep, func(ctx context.Context) (*checkpoint, error) { return hold(ctx, dir) }, p)
	if out == nil {
		return nil, err
	}
	return out, err
}

// checkOutside refuses a place inside the data directory, with which it would be lost.
func checkOutside(place, dir string) error {
	if inside, err := backup.Within(place, dir); err == nil && inside {
		return fmt.Errorf("%s is in the data directory and would be lost with it", place)
	}
	return nil
}

// takeInto copies the checkpoint that holdCheckpoint makes, and then removes all backups but
// the newest keep; 0 removes none. The outcome is nil if no backup was made.
func takeInto(
	ctx context.Context, place *backup.Place, keep int, holdCheckpoint func(context.Context) (*checkpoint, error), p *progress,
) (_ *backedUp, err error) {
	started := time.Now()
	at, err := holdCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	out := &backedUp{Held: time.Since(started).Seconds()}
	defer func() { err = errors.Join(err, at.release()) }()
	taken, err := copyOut(at, place, backup.Manifest{Created: backup.Now(started), Version: version}, p)
	if err != nil {
		return nil, err
	}
	m := taken.Manifest
	out.Backup, out.Models, out.Files, out.Bytes = m.Name, len(m.Models), len(m.Files), m.Bytes()
	out.NewFiles, out.NewBytes = taken.NewFiles, taken.NewBytes
	if keep > 0 {
		retired, err := retain(at, place, keep)
		out.Backups, out.Removed, out.RemovedBy = retired.Backups, retired.Files, retired.Bytes
		if err != nil {
			return out, fmt.Errorf("the backup %s is there, older ones are not removed: %w", m.Name, err)
		}
	}
	out.Seconds = time.Since(started).Seconds()
	return out, nil
}

// copyOut copies a checkpoint while it is there.
func copyOut(at *checkpoint, place *backup.Place, about backup.Manifest, p *progress) (backup.Taken, error) {
	models, err := sequences(at.gone, at.directory, store.Options{})
	if err != nil {
		return backup.Taken{}, fmt.Errorf("the checkpoint: %w", err)
	}
	about.Models = models
	taken, err := place.Take(at.gone, at.directory, about, p.copied)
	if err != nil && at.gone.Err() != nil {
		err = errors.Join(context.Cause(at.gone), err)
	}
	return taken, err
}

// retain removes older backups while the checkpoint is held: no other backup of the
// directory writes files then that no manifest names yet.
func retain(at *checkpoint, place *backup.Place, keep int) (backup.Retired, error) {
	retired, err := place.Retain(at.gone, keep)
	if err != nil && at.gone.Err() != nil {
		err = errors.Join(context.Cause(at.gone), err)
	}
	return retired, err
}

// copied tells how far a copy is.
func (p *progress) copied(at backup.Progress) {
	p.tell(func() string {
		return fmt.Sprintf("%d of %d files, %s of %s, %s",
			at.Files, at.TotalFiles, megabytes(at.Bytes), megabytes(at.TotalBytes), percent(at.Bytes, at.TotalBytes))
	})
}

// sequences tells how far the models of a directory are that no server has open.
func sequences(ctx context.Context, dir string, o store.Options) (_ []backup.Model, err error) {
	disk, waiting, err := store.Inspect(dir, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if waiting != nil {
		return nil, fmt.Errorf("the predictions that wait: %w", waiting)
	}
	models, err := check.Models(ctx, disk)
	out := make([]backup.Model, 0, len(models))
	for _, m := range models {
		out = append(out, backup.Model(m))
	}
	return out, err
}
