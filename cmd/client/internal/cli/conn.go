package cli

import (
	"context"
	"errors"
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

// dial prepares a connection to the server of the flags. The client sends no call again
// unless a command asks for it.
func (e *env) dial(timeout time.Duration) (*client.Client, error) {
	return e.Dial(client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
}

// dialChild prepares a connection to a server that the program has started.
func dialChild(address string, timeout time.Duration) (*client.Client, error) {
	c, err := client.Dial(address, client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}

// completer asks the server for the names that begin with a prefix.
type completer func(ctx context.Context, c *client.Client, prefix string) ([]string, error)

func (e *env) complete(ask completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := e.dial(completionTimeout)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := ask(cmd.Context(), c, prefix)
		if errors.Join(err, c.Close()) != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func models(ctx context.Context, c *client.Client, prefix string) ([]string, error) {
	page, err := c.ListPage(ctx, &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels})
	return idsOf(page.GetModels()), err
}

func allModels(ctx context.Context, c *client.Client, prefix string) ([]string, error) {
	page, err := c.ListPage(ctx, &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels, ShowDeleted: true})
	return idsOf(page.GetModels()), err
}

func idsOf(models []*hindsightv1.Model) []string {
	ids := make([]string, len(models))
	for i, m := range models {
		ids[i] = m.GetId()
	}
	return ids
}

func aliases(ctx context.Context, c *client.Client, prefix string) ([]string, error) {
	all, err := c.Aliases(ctx)
	var names []string
	for _, a := range all {
		if strings.HasPrefix(a.GetAlias(), prefix) {
			names = append(names, a.GetAlias())
		}
	}
	return names, err
}
