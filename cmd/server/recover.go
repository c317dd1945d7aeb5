package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/cluster"
	"hindsight/internal/store"
)

// recovered is the outcome of cluster recover.
type recovered struct {
	Directory string   `json:"directory"`
	Server    string   `json:"server"`
	Address   string   `json:"address"`
	Removed   []string `json:"removed"`
	LastEntry uint64   `json:"lastEntry"`
	Done      bool     `json:"done"`
}

func (r *recovered) write(w io.Writer) {
	fmt.Fprintf(w, "directory   %s\nserver      %s at %s\nlast entry  %d\n", r.Directory, r.Server, r.Address, r.LastEntry)
	for _, address := range r.Removed {
		fmt.Fprintf(w, "without     %s\n", address)
	}
	fmt.Fprint(w, `
The models of this server become the models of the cluster. Observations that the other servers
have acknowledged after the last entry may be missing, and clients do not send them again.
Never start the servers listed as "without" with their present directories: half of them could continue
the old cluster beside the new one. Empty their directories, and start them with
--cluster-join to add them to the new cluster.
`)
	if r.Done {
		fmt.Fprint(w, "\nDone: start this server.\n")
	}
}

var errNotConfirmed = errors.New("the directory is unchanged: confirm with --yes")

// clusterCommand runs "cluster recover": it makes the server of a data directory the only member of its cluster, after
// more than half of the members are lost for good.
func clusterCommand(c call) int {
	if len(c.args) == 0 || c.args[0] != "recover" {
		return c.fail("cluster", usagef("cluster recover --data-dir DIR [--yes]"))
	}
	c.args = c.args[1:]
	command := newSubcommand("cluster recover")
	yes := command.own.Bool("yes", false, "")
	return command.run(c, func(settings config.Config, _ *progress) (outcome, error) {
		if _, err := os.Stat(filepath.Join(settings.DataDir, "cluster")); err != nil { // Open would turn the directory into a member's.
			return nil, fmt.Errorf("%s is not the directory of a member of a cluster: %w", settings.DataDir, err)
		}
		s, err := cluster.Recover(settings.DataDir, store.Options{}, settings.ClusterAddress, func(*cluster.Survivor) bool { return *yes })
		if err != nil {
			return nil, err
		}
		r := &recovered{Directory: settings.DataDir, Server: s.Self.ID, Address: s.Self.Address, Removed: []string{}, LastEntry: s.Last, Done: *yes}
		for _, m := range s.Others {
			r.Removed = append(r.Removed, m.Address)
		}
		if !*yes {
			err = errNotConfirmed
		}
		return r, err
	})
}
