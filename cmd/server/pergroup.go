package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"hindsight/cmd/server/internal/backup"
	"hindsight/internal/store"
)

// groupDirectory returns the directory of a group of a data directory.
func groupDirectory(dir string, number uint32) string {
	if number == 0 {
		return dir
	}
	return filepath.Join(dir, store.GroupsDirectory, strconv.FormatUint(uint64(number), 10))
}

// numberOf returns the number of a group, 0 of a nil group.
func numberOf(g *backup.Group) uint32 {
	if g == nil {
		return 0
	}
	return g.Number
}

// groupsOf returns the groups that a data directory has: a nil group, unless the directory belongs to a cluster of
// several groups. Then the first one is group 0, which has no models.
func groupsOf(dir string) ([]*backup.Group, error) {
	of, err := store.GroupsIn(dir)
	if err != nil || of == 1 {
		return []*backup.Group{nil}, err
	}
	var out []*backup.Group
	for n := range of + 1 {
		group := &backup.Group{Number: uint32(n), Of: of} //nolint:gosec // A cluster has few groups.
		_, err := os.Stat(groupDirectory(dir, group.Number))
		switch {
		case err == nil:
			out = append(out, group)
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("the groups of %s: %w", dir, err)
		}
	}
	return out, nil
}

// perGroup is the outcome of a command for each group of a cluster of several groups.
type perGroup[T outcome] struct {
	Groups []T `json:"groups"`
}

func (p *perGroup[T]) write(w io.Writer) {
	for _, one := range p.Groups {
		one.write(w)
	}
}

// outcomeOf returns the outcome of a command: for each group, or the one outcome of a nil group.
func outcomeOf[T outcome](groups []*backup.Group, all []T) outcome {
	switch {
	case len(groups) != 1 || groups[0] != nil:
		return &perGroup[T]{all}
	case len(all) == 1:
		return all[0]
	}
	return nil
}

// writeGroup begins a line about a group.
func writeGroup(w io.Writer, number uint32) {
	if number > 0 {
		fmt.Fprintf(w, "group %d: ", number)
	}
}
