package cli

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

func (e *env) alias() *cobra.Command {
	return e.group("alias", "Give models other names, which switch at once", `An alias stands for a model wherever a model is named. The alias switches to another
model from one moment to the next.`,
		e.aliasSet(),
		verb{use: "list", short: "List the aliases by name", run: func(c *call) error {
			all := func(a []*hindsightv1.Alias) proto.Message { return &hindsightv1.ListAliasesResponse{Aliases: a} }
			return showList(e, all, []string{"alias", "model", "before", "set"}, func(a *hindsightv1.Alias) []any {
				return []any{a.GetAlias(), a.GetModel(), a.GetPreviousModel(), when(a.GetUpdateTime())}
			})(c.client.Aliases(c.ctx()))
		}},
		verb{use: "delete ALIAS", short: "Remove an alias; its model stays", run: func(c *call) error {
			if err := c.client.DeleteAlias(c.ctx(), c.args[0]); err != nil {
				return err
			}
			deleted := struct {
				Alias   string `json:"alias"`
				Deleted bool   `json:"deleted"`
			}{c.args[0], true}
			return e.emit(deleted, func(w *command.Page) { w.Printf("deleted %s\n", c.args[0]) })
		}},
	)
}

func (e *env) aliasSet() verb {
	request := new(hindsightv1.SetAliasRequest)
	return verb{
		use:     "set ALIAS MODEL",
		short:   "Make an alias name a model",
		example: `  hindsight alias set champion energy-2 --expected energy-1`,
		flags: func(f *flagSet) {
			f.StringVar(&request.ExpectedModel, "expected", "", "the model that the alias must name before; - says that the alias must be new")
		},
		run: func(c *call) error {
			request.Alias, request.Model = c.args[0], c.args[1]
			return show(e, writeAlias)(c.client.SetAlias(c.ctx(), request))
		},
	}
}

func writeAlias(w *command.Page, a *hindsightv1.Alias) {
	w.Row("alias", a.GetAlias())
	w.Row("model", a.GetModel())
	w.Text("before", a.GetPreviousModel())
}
