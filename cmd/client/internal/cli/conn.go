package cli

import (
	"errors"
	"slices"
	"strings"
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

// dial prepares a connection to the server of the flags. No call is sent again unless a
// command asks for it.
func (e *env) dial(timeout time.Duration) (*client.Client, error) {
	return e.Dial(client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
}

// dialTo is dial to another server, with the same certificates and token.
func (e *env) dialTo(address string) (*client.Client, error) {
	return e.DialTo(address, client.WithTimeout(e.Timeout), client.WithRetry(client.Retry{}))
}

// dialChild prepares a connection to a server that the program has started.
func dialChild(address string, timeout time.Duration) (*client.Client, error) {
	c, err := client.Dial(address, client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}

// withClient calls do with a connection to the server.
func (e *env) withClient(do func(*client.Client) error) error {
	c, err := e.dial(e.Timeout)
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

// completeModelFlag completes a flag that is the id of a model.
func (e *env) completeModelFlag(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return e.complete(func(c *client.Client) ([]cobra.Completion, error) {
		page, err := c.ListPage(cmd.Context(), &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels})
		return idsOf(page.GetModels()), err
	})
}

// completeDeleted completes an argument that is the id of a deleted model.
func (e *env) completeDeleted(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.complete(func(c *client.Client) ([]cobra.Completion, error) {
		page, err := c.ListPage(cmd.Context(), &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: pageSize, ShowDeleted: true})
		deleted := slices.DeleteFunc(page.GetModels(), func(m *hindsightv1.Model) bool { return m.GetDeleteTime() == nil })
		return idsOf(deleted), err
	})
}

// completeAlias completes a first argument that is an alias.
func (e *env) completeAlias(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.complete(func(c *client.Client) ([]cobra.Completion, error) {
		aliases, err := c.Aliases(cmd.Context())
		var names []cobra.Completion
		for _, a := range aliases {
			if strings.HasPrefix(a.GetAlias(), prefix) {
				names = append(names, a.GetAlias())
			}
		}
		return names, err
	})
}

// complete asks the server for completions.
func (e *env) complete(ask func(*client.Client) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := e.dial(completionTimeout)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := ask(c)
	if errors.Join(err, c.Close()) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func idsOf(models []*hindsightv1.Model) []cobra.Completion {
	ids := make([]cobra.Completion, len(models))
	for i, m := range models {
		ids[i] = m.GetId()
	}
	return ids
}

// modelFlag adds the flag --model.
func (e *env) modelFlag(cmd *cobra.Command, model *string) {
	cmd.Flags().StringVar(model, "model", "", "id of the model (required)")
	e.modelCompletion(cmd, "model")
}

// modelCompletion makes a flag complete to ids of models.
func (e *env) modelCompletion(cmd *cobra.Command, flag string) {
	// It fails for a flag that does not exist. This one was just added.
	if err := cmd.RegisterFlagCompletionFunc(flag, e.completeModelFlag); err != nil {
		panic("cli: " + err.Error())
	}
}
