package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"hindsight/cmd/server/internal/backup"
)

type listed struct {
	Backups []string `json:"backups"`
}

func (l *listed) write(w io.Writer) {
	for _, name := range l.Backups {
		fmt.Fprintln(w, name)
	}
}

// selection is which backups of a place the flags select.
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
