package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// cluster builds "cluster", the group of commands about the servers of a cluster.
func (e *env) cluster() *cobra.Command {
	var yes bool
	return e.group("cluster", "Show and change the servers of a cluster", `The servers of a cluster keep the same models. One server, the owner, makes all changes.
A server is named by its id or by its address in the cluster.`,
		verb{use: "status", short: "List the servers, the owner among them", run: func(c *call) error {
			answer, err := c.client.Servers(c.ctx())
			all := func([]*hindsightv1.Server) proto.Message { return answer }
			header := []string{"server", "address", "state", "reachable", "applied", "behind", "age", "version"}
			return showList(e, all, header, func(s *hindsightv1.Server) []any {
				var age any
				if s.GetAge() != nil {
					age = s.GetAge().AsDuration()
				}
				return []any{s.GetServer(), s.GetAddress(), stateOf(s), s.GetReachable(), optional(s.Applied), optional(s.Behind), age, s.GetVersion()}
			})(answer.GetServers(), err)
		}},
		verb{
			use: "move [SERVER]", short: "Make another server the owner", optional: true, complete: []completer{servers},
			long: `Make another server the owner: the named server, or the most advanced. Calls wait for some
milliseconds. None fails.`,
			run: func(c *call) error {
				server := strings.Join(c.args, "")
				return e.changed("moved", server, c.client.MoveOwner(c.ctx(), server))
			},
		},
		verb{
			use: "drain SERVER", short: "Move ownership away from a server, so that you can stop the server", complete: []completer{servers},
			run: func(c *call) error { return e.changed("drained", c.args[0], c.client.DrainServer(c.ctx(), c.args[0])) },
		},
		verb{
			use: "remove SERVER", short: "Remove a server from the cluster for good", complete: []completer{servers},
			long: `Remove a server from the cluster for good. The server no longer votes, and can join again only as a new
server, with an empty data directory.`,
			flags: func(f *flagSet) { f.BoolVar(&yes, "yes", false, "remove the server without asking") },
			run: func(c *call) error {
				if !yes {
					if err := e.confirm(c.ctx(), fmt.Sprintf("this removes the server %s for good", c.args[0])); err != nil {
						return err
					}
				}
				return e.changed("removed", c.args[0], c.client.RemoveServer(c.ctx(), c.args[0]))
			},
		},
	)
}

// stateOf returns the state of a server in one word.
func stateOf(s *hindsightv1.Server) string {
	return strings.ToLower(strings.TrimPrefix(s.GetState().String(), "STATE_"))
}

// optional returns the value of a cell, nil if the value is unknown.
func optional[T any](value *T) any {
	if value == nil {
		return nil
	}
	return *value
}

// changed prints the change that a server has made.
func (e *env) changed(what, server string, err error) error {
	if err != nil {
		return err
	}
	return e.emit(map[string]string{"done": what, "server": server}, func(w *command.Page) {
		w.Printf("%s\n", strings.TrimSpace(what+" "+server))
	})
}

// servers completes the id of a server.
func servers(ctx context.Context, c *client.Client, prefix string) ([]string, error) {
	answer, err := c.Servers(ctx)
	var ids []string
	for _, s := range answer.GetServers() {
		if strings.HasPrefix(s.GetServer(), prefix) {
			ids = append(ids, s.GetServer())
		}
	}
	return ids, err
}
