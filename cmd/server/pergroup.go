package main

import (
	"fmt"
	"io"
	"slices"

	"hindsight/cmd/server/internal/backup"
	"hindsight/internal/store"
)

// groupsOf returns the groups that a data directory has: the zero group, unless the directory belongs to a cluster of
// several groups. Then the first one is group 0, which has no models.
func groupsOf(dir string) ([]backup.Group, error) {
	of, err := store.GroupsIn(dir)
	if err != nil || of == 1 {
		return []backup.Group{{}}, err
	}
	var out []backup.Group
	for n := range of + 1 {
		group := backup.Group{Number: uint32(n), Of: of}
		exists, err := store.GroupExists(store.GroupDirectory(dir, group.Number), store.Options{})
		if err != nil {
			return nil, err
		}
		if exists {
			out = append(out, group)
		}
	}
	return out, nil
}

// missing returns the numbers of the groups of models that a cluster has beside groups.
func missing(cluster int, groups []backup.Group) (out []int) {
	for n := 1; n <= cluster; n++ {
		if !slices.ContainsFunc(groups, func(g backup.Group) bool { return int(g.Number) == n }) {
			out = append(out, n)
		}
	}
	return out
}

type perGroup[T outcome] struct {
	Groups []T `json:"groups"`
}

func (p *perGroup[T]) write(w io.Writer) {
	for _, one := range p.Groups {
		one.write(w)
	}
}

// outcomeOf returns the outcome of a command: for each group, or the one outcome of the zero group.
func outcomeOf[T outcome](groups []backup.Group, all []T) outcome {
	switch {
	case len(groups) != 1 || groups[0] != (backup.Group{}):
		return &perGroup[T]{all}
	case len(all) == 1:
		return all[0]
	}
	return nil
}

func writeGroup(w io.Writer, number uint32) {
	if number > 0 {
		fmt.Fprintf(w, "group %d: ", number)
	}
}
