package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

const (
	completionTimeout = time.Second
	completionModels  = 100
)

// dial prepares a connection. No call is sent again unless a command asks for it.
func dial(address string, timeout time.Duration) (*client.Client, error) {
	c, err := client.Dial(address, client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}

// withClient calls do with a connection to the server.
func (e *env) withClient(do func(*client.Client) error) error {
	c, err := dial(e.Address, e.Timeout)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// completeModel completes an argument that is the id of a model.
func (e *env) completeModel(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.completeModelFlag(cmd, nil, prefix)
}

// completeModelFlag completes a flag that is the id of a model. It asks the
// server for ids.
func (e *env) completeModelFlag(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := dial(e.Address, completionTimeout)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	page, err := c.ListPage(cmd.Context(), &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels})
	if errors.Join(err, c.Close()) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ids := make([]cobra.Completion, 0, len(page.GetModels()))
	for _, m := range page.GetModels() {
		ids = append(ids, m.GetId())
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// modelFlag adds the flag --model.
func (e *env) modelFlag(cmd *cobra.Command, model *string) {
	cmd.Flags().StringVar(model, "model", "", "id of the model (required)")
	// It fails for a flag that does not exist. This one was just added.
	if err := cmd.RegisterFlagCompletionFunc("model", e.completeModelFlag); err != nil {
		panic("cli: " + err.Error())
	}
}
