package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/bucket"
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

type listed struct {
	Backups []string `json:"backups"`
}

func (l *listed) write(w io.Writer) {
	for _, name := range l.Backups {
		fmt.Fprintln(w, name)
	}
}

type selection struct {
	from, backup, at *string
	list             *bool
}

func (s *subcommand) selection() selection {
	return selection{s.flags.String("from", "", ""), s.flags.String("backup", "", ""), s.flags.String("at", "", ""), s.flags.Bool("list", false, "")}
}

func (s selection) time() (time.Time, error) {
	if *s.at == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, *s.at)
	if err != nil || t.IsZero() {
		return t, usagef("--at: got %q, want a time such as 2026-03-01T09:30:00Z", *s.at)
	}
	return t, nil
}

// find opens the place of a group and reads the manifest. Without --backup it selects the oldest backup
// begun at or after the time: its logs reach back the farthest.
func (s selection) find(ctx context.Context, group backup.Group, at time.Time) (place *backup.Place, m *backup.Manifest, err error) {
	if place, err = backup.Open(group.Place(*s.from), false); err != nil {
		return nil, nil, err
	}
	switch {
	case *s.backup == "" && !at.IsZero():
		m, err = place.Since(ctx, at)
	case *s.backup != "" && group.Number > 0:
		m, err = place.Until(ctx, *s.backup)
	default:
		m, err = place.Find(ctx, *s.backup)
	}
	if err == nil && m.Group.Number != group.Number && group.Number > 0 {
		err = fmt.Errorf("%s has another backup: %+v", group.Place(*s.from), m.Group)
	}
	if err != nil {
		return nil, nil, err
	}
	if group.Number == 0 {
		m.Group = group // The place of one group is restored like the place of a server.
	}
	return place, m, nil
}

// groups returns the groups that the place has: the zero group for the backups of a server, or of a cluster of one group.
func (s selection) groups(ctx context.Context) ([]backup.Group, error) {
	place, err := backup.Open(*s.from, false)
	if err != nil {
		return nil, err
	}
	numbers, err := place.Groups(ctx)
	if err != nil || len(numbers) == 0 {
		return []backup.Group{{}}, err
	}
	if names, err := place.Names(ctx); err != nil || len(names) > 0 {
		return nil, cmp.Or(err, fmt.Errorf("%s has backups with groups and without: move backups/ and objects/, or the directories of the groups, to another place", *s.from))
	}
	out := make([]backup.Group, 0, len(numbers))
	for _, n := range numbers {
		out = append(out, backup.Group{Number: n})
	}
	return out, nil
}

type source struct {
	*backup.Place
	m *backup.Manifest
}

// sources returns the backups of all groups. It fails if the place lacks a group of the cluster.
func (s selection) sources(ctx context.Context, at time.Time) (all []source, err error) {
	groups, err := s.groups(ctx)
	if err != nil {
		return nil, err
	}
	of, found := 0, []backup.Group{}
	for _, group := range groups {
		place, m, err := s.find(ctx, group, at)
		if errors.Is(err, backup.ErrNoBackup) && group.Number > 0 {
			continue
		}
		if err != nil {
			return nil, group.Wrap(err)
		}
		all, found = append(all, source{place, m}), append(found, m.Group)
		if of = cmp.Or(of, m.Group.Of); of != m.Group.Of {
			return nil, group.Wrap(fmt.Errorf("the backup is of a cluster of %d groups, and others in %s are of %d", m.Group.Of, *s.from, of))
		}
	}
	if lacks := missing(of, found); len(lacks) > 0 || len(all) == 0 {
		return nil, fmt.Errorf("%w of all groups in %s: of %d groups it lacks %v", backup.ErrNoBackup, *s.from, of, lacks)
	}
	return all, nil
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

// names lists the backups. The names of a group's backups begin with the group's place.
func (s selection) names(ctx context.Context) (outcome, error) {
	groups, err := s.groups(ctx)
	if err != nil {
		return nil, err
	}
	out := &listed{}
	for _, group := range groups {
		place, err := backup.Open(group.Place(*s.from), false)
		if err != nil {
			return nil, err
		}
		names, err := place.Names(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			out.Backups = append(out.Backups, path.Join(group.Place(""), name))
		}
	}
	return out, nil
}

func restoreAll(ctx context.Context, dir string, which selection, at time.Time, p *progress) (outcome, error) {
	sources, err := which.sources(ctx, at)
	if err != nil {
		return nil, err
	}
	all, groups := []*restored{}, []backup.Group{}
	err = filled(dir, func() error {
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

// setGroups makes a restored directory the directory of a server that founds a cluster of so many groups.
func setGroups(dir string, groups int) error {
	disk, err := store.Open(dir, store.Options{Restoring: true})
	if err != nil {
		return err
	}
	_, err = disk.Member() // SetGroups wants it.
	if err == nil {
		err = disk.SetGroups(groups)
	}
	return errors.Join(err, disk.Close(), bucket.SyncDirectory(filepath.Dir(store.GroupDirectory(dir, 1))))
}

// filled fills an empty directory. A mark keeps servers from the directory until fill has
// succeeded. After an error the directory is empty again.
func filled(dir string, fill func() error) (err error) {
	if err := os.MkdirAll(dir, restoredMode); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	present, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	present = slices.DeleteFunc(present, func(e os.DirEntry) bool { return e.Name() == "lost+found" })
	mark := filepath.Join(dir, store.RestoringMark)
	if _, err := os.Stat(mark); err == nil {
		return fmt.Errorf("a restore into %s did not end, or goes on: if none does, empty the directory and restore again", dir)
	}
	if len(present) > 0 {
		return fmt.Errorf("%s is not empty: it has %s; a restore wants an empty directory", dir, present[0].Name())
	}
	// One of two concurrent restores creates the mark; the other fails.
	made, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, restoredFileMode) //nolint:gosec // The operator names the directory.
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, empty(dir))
		}
	}()
	if err := made.Close(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LOCK"), nil, restoredFileMode); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := bucket.SyncDirectory(dir); err != nil {
		return err
	}
	if err := fill(); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return bucket.SyncDirectory(dir)
}

const (
	restoredMode     = 0o750
	restoredFileMode = 0o600
)

func empty(dir string) error {
	present, err := os.ReadDir(dir)
	for _, e := range present {
		if e.Name() != "lost+found" && e.Name() != store.RestoringMark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, store.RestoringMark))
	}
	if err != nil {
		return fmt.Errorf("the directory must not be used: %w", err)
	}
	return nil
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
	found, _, err := sequences(ctx, dir, store.Options{Restoring: true})
	if err != nil {
		return err
	}
	if !slices.Equal(found, m.Models) {
		return fmt.Errorf("%w: its models are not those of its manifest", errDamaged)
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
