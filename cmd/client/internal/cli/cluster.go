package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func (e *env) cluster() *cobra.Command {
	var yes bool
	var number uint32
	var leaving []string
	var from string
	ofGroup := func(f *flagSet) { f.Uint32Var(&number, "group", 0, "number of a group of models") }
	return e.group("cluster", "Show and change the servers of a cluster", `The servers of a group keep the same models. One of them, the owner, makes all changes. A cluster
has one group by default. A server is named by its id or by its address in the cluster.`,
		verb{
			use: "status", short: "List the servers and the groups, with their owners", flags: ofGroup,
			long: `List the servers, the owner among them. In a cluster of several groups also list the groups with
their owners and servers, and how many groups each server has and owns. --group lists the servers of
one group.`,
			run: func(c *call) error {
				answer, err := c.client.Servers(c.ctx(), number)
				if err != nil {
					return err
				}
				return e.showCluster(answer)
			},
		},
		verb{
			use: "move [SERVER]", short: "Make another server the owner", optional: true,
			long: `Make another server the owner of a group: the named server, or the most advanced. Calls wait for
some milliseconds. None fails. With --from move the ownership of all groups away from a server, so that
you can stop the server; a restart of the server ends this.`,
			flags: func(f *flagSet) {
				ofGroup(f)
				f.StringVar(&from, "from", "", "`server` that owns no group afterwards")
			},
			before: func(c *call) error {
				switch {
				case c.given("from") && from == "":
					return command.Usagef("--from: got nothing, want a server")
				case c.given("from") && (len(c.args) > 0 || c.given("group")):
					return command.Usagef("--from moves all groups of a server to any other: give no other server and no --group")
				case len(c.args) > 0 && c.args[0] == "":
					return command.Usagef("SERVER: got nothing, want a server; without the argument the most advanced becomes the owner")
				}
				return nil
			},
			run: func(c *call) error {
				if c.given("from") {
					return e.changed("drained", from, c.client.DrainServer(c.ctx(), from))
				}
				server := strings.Join(c.args, "")
				return e.changed("moved", server, c.client.MoveOwner(c.ctx(), number, server))
			},
		},
		verb{
			use: "rebalance", short: "Move groups until all servers have about as many",
			long: `Move groups and their ownership, one at a time, until all servers have and own about as many. Call it
after a server has joined. With --leaving the named servers lose all groups, so that you can remove
them.`,
			flags: func(f *flagSet) {
				f.StringArrayVar(&leaving, "leaving", nil, "`server` that loses all its groups; repeat the flag for several servers")
			},
			run: func(c *call) error { return e.rebalance(c.ctx(), leaving) },
		},
		verb{
			use: "remove SERVER --yes", short: "Remove a server from the cluster for good",
			long: `Remove a server from the cluster for good. The server no longer votes, and can join again only as a new
server, with an empty data directory.`,
			flags: func(f *flagSet) { f.BoolVar(&yes, "yes", false, "remove the server; required") },
			before: func(c *call) error {
				if !yes {
					return command.Usagef("this removes the server %s for good: give --yes", c.args[0])
				}
				return nil
			},
			run: func(c *call) error {
				return e.changed("removed", c.args[0], c.client.RemoveServer(c.ctx(), c.args[0]))
			},
		},
	)
}

// showCluster lists the servers, then the groups if the answer has groups.
func (e *env) showCluster(answer *hindsightv1.GetClusterResponse) error {
	raw, err := encode(answer)
	if err != nil {
		return err
	}
	header := []string{"server", "address", "state", "reachable", "applied", "behind", "age", "version"}
	has, owns := loads(answer.GetGroups())
	if len(answer.GetGroups()) > 0 {
		header = append(header, "groups", "owns")
	}
	var rows, groups [][]any
	for _, s := range answer.GetServers() {
		row := []any{s.GetServer(), s.GetAddress(), stateOf(s), s.GetReachable(), optional(s.Applied), optional(s.Behind), ageOf(s.GetAge()), s.GetVersion()}
		if len(answer.GetGroups()) > 0 {
			row = append(row, has[s.GetAddress()], owns[s.GetAddress()])
		}
		rows = append(rows, row)
	}
	for _, g := range answer.GetGroups() {
		groups = append(groups, []any{g.GetGroup(), g.GetOwner(), ageOf(g.GetAge()), strings.Join(g.GetServers(), " ")})
	}
	if len(rows) == 0 {
		return e.Emit(raw, func(w *command.Page) { w.Printf("the server is alone: it belongs to no cluster\n") })
	}
	if len(groups) == 0 {
		return e.EmitRows(raw, header, rows)
	}
	return e.Emit(raw, func(w *command.Page) {
		w.Rows(header, rows)
		w.Printf("\n")
		w.Rows([]string{"group", "owner", "age", "servers"}, groups)
	})
}

// loads returns how many groups each server has and owns, by the server's address.
func loads(groups []*hindsightv1.Group) (has, owns map[string]int) {
	has, owns = map[string]int{}, map[string]int{}
	for _, g := range groups {
		owns[g.GetOwner()]++
		for _, address := range g.GetServers() {
			has[address]++
		}
	}
	return has, owns
}

func ageOf(age *durationpb.Duration) any {
	if age == nil {
		return nil
	}
	return age.AsDuration()
}

// rebalanceTimeout is the longest time of one step. A server that gets a group copies all its models.
const rebalanceTimeout = 10 * time.Minute

// rebalance makes steps until none is left, and prints each.
func (e *env) rebalance(ctx context.Context, leaving []string) (err error) {
	c, err := e.Dial(client.WithTimeout(max(e.Timeout, rebalanceTimeout)), client.WithRetry(client.Retry{Max: 5}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for {
		answer, err := c.Rebalance(ctx, leaving...)
		if err != nil {
			return err
		}
		if answer.GetStep() == "" {
			break
		}
		err = e.EmitLine(map[string]any{"step": answer.GetStep(), "left": answer.GetLeft()}, func(w *command.Page) {
			w.Printf("%s; %d left\n", answer.GetStep(), answer.GetLeft())
		})
		if err != nil {
			return err
		}
	}
	answer, err := c.Servers(ctx, 0)
	if err != nil {
		return err
	}
	has, owns := loads(answer.GetGroups())
	highest := func(of map[string]int) int { return slices.Max(append(slices.Collect(maps.Values(of)), 0)) }
	return e.EmitLine(
		map[string]any{"done": "balanced", "groups": len(answer.GetGroups()), "max_groups": highest(has), "max_owned": highest(owns)},
		func(w *command.Page) {
			if len(answer.GetGroups()) == 0 {
				w.Printf("balanced: the cluster has one group\n")
				return
			}
			w.Printf("balanced: %d groups; a server has at most %d, and owns at most %d\n", len(answer.GetGroups()), highest(has), highest(owns))
		},
	)
}

func stateOf(s *hindsightv1.Server) string {
	return strings.ToLower(strings.TrimPrefix(s.GetState().String(), "STATE_"))
}

func optional[T any](value *T) any {
	if value == nil {
		return nil
	}
	return *value
}

func (e *env) changed(what, server string, err error) error {
	if err != nil {
		return err
	}
	return e.emit(map[string]string{"done": what, "server": server}, func(w *command.Page) {
		w.Printf("%s\n", strings.TrimSpace(what+" "+server))
	})
}
