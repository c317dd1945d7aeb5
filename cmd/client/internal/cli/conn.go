package cli

import (
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/internal/connection"
)

const (
	completionTimeout = time.Second
	completionModels  = 100
)

// client makes the calls of the commands.
type client struct{ *connection.Conn }

// dial prepares a connection; see connection.Dial.
func dial(address string, timeout time.Duration) (*client, error) {
	conn, err := connection.Dial(address, timeout)
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return &client{conn}, nil
}

// withClient calls do with a connection to the server.
func (e *env) withClient(do func(*client) error) error {
	c, err := dial(e.Address, e.Timeout)
	if err != nil {
		return err
	}
	return c.Close(do(c))
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
	ctx, cancel := c.Bounded(cmd.Context())
	defer cancel()
	page, err := c.Models.ListModels(ctx, &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels})
	if c.Close(err) != nil {
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
