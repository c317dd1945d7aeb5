package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/cluster"
	"hindsight/internal/store"
)

// recovered is the outcome of cluster recover.
type recovered struct {
	Group     uint32   `json:"group,omitempty"`
	Directory string   `json:"directory"`
	Server    string   `json:"server"`
	Address   string   `json:"address"`
	Removed   []string `json:"removed"`
	LastEntry uint64   `json:"lastEntry"`
	Done      bool     `json:"done"`
}

func (r *recovered) show(w io.Writer) {
	if r.Group > 0 {
		fmt.Fprintf(w, "group       %d\n", r.Group)
	}
	fmt.Fprintf(w, "directory   %s\nserver      %s at %s\nlast entry  %d\n", r.Directory, r.Server, r.Address, r.LastEntry)
	for _, address := range r.Removed {
		fmt.Fprintf(w, "without     %s\n", address)
	}
}

func (r *recovered) write(w io.Writer) {
	r.show(w)
	warnRecovered(w, r.Done)
}

// recoveredGroups is the outcome of cluster recover in a cluster of several groups.
type recoveredGroups struct {
	Groups []*recovered `json:"groups"`
	// Missing are the groups that the directory does not have.
	Missing []uint32 `json:"missing,omitempty"`
	Done    bool     `json:"done"`
}

func (r *recoveredGroups) write(w io.Writer) {
	for _, one := range r.Groups {
		one.show(w)
		fmt.Fprintln(w)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(w, "This directory does not have the groups %v: their models stay unavailable. Instead of recovering, back up the\n"+
			"directories of all remaining servers to the place of the backups, and restore the cluster from there.\n", r.Missing)
	}
	warnRecovered(w, r.Done)
}

func warnRecovered(w io.Writer, done bool) {
	fmt.Fprint(w, `
The models of this server become the models of the cluster. Observations that the other servers
have acknowledged after the last entry may be missing, and clients do not send them again.
Never start the servers listed as "without" with their present directories: half of them could continue
the old cluster beside the new one. Empty their directories, and start them with
--cluster-join to add them to the new cluster.
`)
	if done {
		fmt.Fprint(w, "\nDone: start this server.\n")
	}
}

var errNotConfirmed = errors.New("the directory is unchanged: confirm with --yes")

// clusterCommand runs "cluster recover": it makes the server of a data directory the only member of its cluster, after
// more than half of the members are lost for good.
func clusterCommand(c call) int {
	if len(c.args) == 0 || c.args[0] != "recover" {
		return c.fail("cluster", usagef("cluster recover --data-dir DIR [--group N] [--yes]"))
	}
	c.args = c.args[1:]
	command := newSubcommand("cluster recover")
	yes := command.own.Bool("yes", false, "")
	only := command.own.UintSlice("group", nil, "")
	return command.run(c, func(settings config.Config, _ *progress) (outcome, error) {
		if _, err := os.Stat(filepath.Join(settings.DataDir, "cluster")); err != nil { // Open would turn the directory into a member's.
			return nil, fmt.Errorf("%s is not the directory of a member of a cluster: %w", settings.DataDir, err)
		}
		groups, err := groupsOf(settings.DataDir)
		if err != nil {
			return nil, err
		}
		for _, n := range *only {
			if !slices.ContainsFunc(groups, func(g *backup.Group) bool { return uint(numberOf(g)) == n }) {
				return nil, usagef("--group: got %d, and %s does not have this group", n, settings.DataDir)
			}
		}
		out := &recoveredGroups{Done: *yes}
		for _, group := range groups {
			if len(*only) > 0 && !slices.Contains(*only, uint(numberOf(group))) {
				continue
			}
			r, err := recoverGroup(&settings, numberOf(group), *yes)
			if err != nil {
				return nil, group.Wrap(err)
			}
			out.Groups = append(out.Groups, r)
		}
		for n := range groups[0].Cluster() {
			if number := uint32(n) + 1; len(*only) == 0 && !slices.ContainsFunc(groups, func(g *backup.Group) bool { return g.Number == number }) { //nolint:gosec // A cluster has few groups.
				out.Missing = append(out.Missing, number)
			}
		}
		if !*yes {
			err = errNotConfirmed
		}
		if groups[0] == nil {
			return out.Groups[0], err
		}
		return out, err
	})
}

// recoverGroup shows what the server has of a group, and recovers the group if yes.
func recoverGroup(settings *config.Config, number uint32, yes bool) (*recovered, error) {
	dir := groupDirectory(settings.DataDir, number)
	s, err := cluster.Recover(dir, store.Options{}, settings.ClusterAddress, func(*cluster.Survivor) bool { return yes })
	if err != nil {
		return nil, err
	}
	r := &recovered{Group: number, Directory: dir, Server: s.Self.ID, Address: s.Self.Address, Removed: []string{}, LastEntry: s.Last, Done: yes}
	for _, m := range s.Others {
		r.Removed = append(r.Removed, m.Address)
	}
	return r, nil
}
