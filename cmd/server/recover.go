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

type recovered struct {
	Group     uint32   `json:"group,omitempty"`
	Directory string   `json:"directory"`
	Server    string   `json:"server"`
	Address   string   `json:"address"`
	Removed   []string `json:"removed"`
	LastEntry uint64   `json:"lastEntry"`
	Done      bool     `json:"done"`
	note      string
}

func (r *recovered) write(w io.Writer) {
	fmt.Fprintf(w, "directory   %s\nserver      %s at %s\nlast entry  %d\n", r.Directory, r.Server, r.Address, r.LastEntry)
	for _, address := range r.Removed {
		fmt.Fprintf(w, "without     %s\n", address)
	}
	fmt.Fprintln(w, r.note)
	if r.Done && r.note != "" {
		fmt.Fprint(w, "\nDone: start this server.\n")
	}
}

const recoveredNote = `
The models of this server become the models of the cluster. Observations that the other servers
have acknowledged after the last entry may be missing, and clients do not send them again.
Never start the servers listed as "without" with their present directories: half of them could continue
the old cluster beside the new one. Empty their directories, and start them with
--cluster-join to add them to the new cluster.`

const groupsNote = `
When they have joined, run "hindsight cluster rebalance": a recovered group may have this server alone before.`

const missingNote = `
Nobody has the models of the groups %v afterwards, because this directory does not have these groups.
To keep them, recover each remaining server, start it alone, without --cluster-join, and back it up to the
place of the backups. Then restore the cluster from there.`

var errNotConfirmed = errors.New("the directory is unchanged: confirm with --yes")

// clusterCommand runs "cluster recover": it makes the server of a data directory the only member of its cluster, after
// more than half of the members are lost for good.
func clusterCommand(c call) int {
	if len(c.args) == 0 || c.args[0] != "recover" {
		return c.fail("cluster", usagef("cluster recover --data-dir DIR [--group N] [--yes]"))
	}
	c.args = c.args[1:]
	command := newSubcommand("cluster recover")
	yes := command.flags.Bool("yes", false, "")
	only := command.flags.UintSlice("group", nil, "")
	return command.run(c, func(settings config.Config, _ *progress) (outcome, error) {
		if _, err := os.Stat(filepath.Join(settings.DataDir, "cluster")); err != nil { // Open would turn the directory into a member's.
			return nil, fmt.Errorf("%s is not the directory of a member of a cluster: %w", settings.DataDir, err)
		}
		groups, err := groupsOf(settings.DataDir)
		if err != nil {
			return nil, err
		}
		lacks := missing(groups[0].Of, groups)
		for _, n := range *only {
			if !slices.ContainsFunc(groups, func(g backup.Group) bool { return uint(g.Number) == n }) {
				return nil, usagef("--group: got %d, and %s does not have this group", n, settings.DataDir)
			}
		}
		groups = slices.DeleteFunc(groups, func(g backup.Group) bool { return len(*only) > 0 && !slices.Contains(*only, uint(g.Number)) })
		var all []*recovered
		for _, group := range groups {
			r, err := recoverGroup(&settings, group.Number, *yes)
			if err != nil {
				return nil, group.Wrap(err)
			}
			all = append(all, r)
		}
		last := all[len(all)-1]
		last.note = recoveredNote
		if last.Group > 0 {
			last.note += groupsNote
		}
		if len(*only) == 0 && len(lacks) > 0 {
			last.note = fmt.Sprintf(missingNote, lacks) + "\n" + last.note
		}
		if !*yes {
			err = errNotConfirmed
		}
		return outcomeOf(groups, all), err
	})
}

func recoverGroup(settings *config.Config, number uint32, yes bool) (*recovered, error) {
	dir := store.GroupDirectory(settings.DataDir, number)
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
