package cli

import (
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// newAlias builds "alias", the group of commands that manage aliases.
func newAlias(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alias",
		Short: "Give models other names, which switch at once",
		Long: `An alias stands for a model wherever a model is named. It switches to another
model from one moment to the next.`,
		RunE: command.Group,
	}
	cmd.AddCommand(newAliasSet(e), newAliasList(e), newAliasDelete(e))
	return cmd
}

func newAliasSet(e *env) *cobra.Command {
	var expected string
	cmd := &cobra.Command{
		Use:     "set ALIAS MODEL",
		Short:   "Make an alias name a model",
		Example: "  hindsight alias set champion energy-2 --expected energy-1",
		Args:    command.Exactly("ALIAS", "MODEL"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return e.completeAlias(cmd, nil, prefix)
			}
			return e.completeModel(cmd, args[1:], prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				a, err := c.SetAlias(cmd.Context(), &hindsightv1.SetAliasRequest{Alias: args[0], Model: args[1], ExpectedModel: expected})
				if err != nil {
					return err
				}
				return e.emit(a, func(w *command.Page) {
					w.Row("alias", a.GetAlias())
					w.Row("model", a.GetModel())
					if a.GetPreviousModel() != "" {
						w.Row("before", a.GetPreviousModel())
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&expected, "expected", "", "the model that it must name now; - says that the alias must be new")
	e.modelCompletion(cmd, "expected")
	return cmd
}

func newAliasList(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the aliases by name",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withClient(func(c *client.Client) error {
				aliases, err := c.Aliases(cmd.Context())
				if err != nil {
					return err
				}
				var rows [][]any
				for _, a := range aliases {
					rows = append(rows, []any{a.GetAlias(), a.GetModel(), a.GetPreviousModel(), a.GetUpdateTime().AsTime().Format(time.RFC3339)})
				}
				return e.emitRows(&hindsightv1.ListAliasesResponse{Aliases: aliases}, []string{"alias", "model", "before", "set"}, rows)
			})
		},
	}
}

func newAliasDelete(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ALIAS",
		Short: "Remove an alias; its model stays",
		Args:  command.Exactly("ALIAS"), ValidArgsFunction: e.completeAlias,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				if err := c.DeleteAlias(cmd.Context(), args[0]); err != nil {
					return err
				}
				deleted := struct {
					Alias   string `json:"alias"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return e.emit(deleted, func(w *command.Page) { w.Printf("deleted %s\n", args[0]) })
			})
		},
	}
}
