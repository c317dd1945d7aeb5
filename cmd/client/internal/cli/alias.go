package cli

import (
	"fmt"
	"strconv"
	"strings"

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
			return showList(e, all, []string{"alias", "model", "before", "set", "share", "share_model"}, func(a *hindsightv1.Alias) []any {
				var share any // Nothing, and not 0.
				if s := a.GetShare(); s != nil {
					share = s.GetFraction()
				}
				return []any{a.GetAlias(), a.GetModel(), a.GetPreviousModel(), when(a.GetUpdateTime()), share, a.GetShare().GetModel()}
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
	var share string
	var learnAll bool
	return verb{
		use:   "set ALIAS MODEL",
		short: "Make an alias name a model, and give a second model a share of its requests",
		long: `Make an alias name a model. With --share a second model answers a part of the
requests: those of a part of the keys, or of the prediction ids without keys. Each
model learns what it predicted; with --learn-all, for a second model that follows the
first, both learn all. Without --share the model gets all, and a share ends.`,
		example: `  hindsight alias set champion energy-2 --expected energy-1
  hindsight alias set champion energy-2 --share energy-3=0.2`,
		flags: func(f *flagSet) {
			f.StringVar(&request.ExpectedModel, "expected", "", "the model that the alias must name before; - says that the alias must be new")
			f.StringVar(&share, "share", "", "the second model and its part, as MODEL=0.2")
			f.BoolVar(&learnAll, "learn-all", false, "both models learn all: the second one follows the first")
		},
		before: func(*call) error {
			if share == "" {
				if learnAll {
					return command.Usagef("--learn-all needs --share")
				}
				return nil
			}
			name, part, _ := strings.Cut(share, "=")
			fraction, err := strconv.ParseFloat(part, 64)
			if name == "" || err != nil {
				return command.Usagef("--share takes MODEL=PART, such as energy-3=0.2, not %q", share)
			}
			request.Share = &hindsightv1.Share{Model: name, Fraction: fraction, LearnAll: learnAll}
			return nil
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
	if s := a.GetShare(); s != nil {
		learns := "each learns what it predicted"
		if s.GetLearnAll() {
			learns = "both learn all"
		}
		w.Row("share", fmt.Sprintf("%g to %s; %s", s.GetFraction(), s.GetModel(), learns))
	}
}
