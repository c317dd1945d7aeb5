package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/refusal"
)

const (
	completionTimeout = time.Second
	completionModels  = 100
)

// client is a connection to a server.
type client struct {
	conn        *grpc.ClientConn
	models      hindsightv1.ModelServiceClient
	predictions hindsightv1.PredictionServiceClient
	timeout     time.Duration
}

// dial prepares a connection; it is made with the first call.
func dial(address string, timeout time.Duration) (*client, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A server that comes back is found again soon.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return nil, usagef("address %q: %w", address, err)
	}
	return &client{
		conn:        conn,
		models:      hindsightv1.NewModelServiceClient(conn),
		predictions: hindsightv1.NewPredictionServiceClient(conn),
		timeout:     timeout,
	}, nil
}

// bounded returns the context of one call.
func (c *client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// mark marks err as that of an unreachable server if the time ran out before
// there was a connection.
func (c *client) mark(err error) error {
	code, _ := refusal.Code(err)
	if code == codes.DeadlineExceeded && c.conn.GetState() != connectivity.Ready {
		return &unreachableError{err}
	}
	return err
}

// close ends the connection and marks the error that it ended with.
func (c *client) close(err error) error {
	return errors.Join(c.mark(err), c.conn.Close())
}

// withClient runs do with a connection to the server.
func (e *env) withClient(do func(*client) error) error {
	c, err := dial(e.address, e.timeout)
	if err != nil {
		return err
	}
	return c.close(do(c))
}

// completeModel completes the id of a model by asking the server.
func (e *env) completeModel(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.completeModelFlag(cmd, nil, prefix)
}

// completeModelFlag completes the id of a model in a flag.
func (e *env) completeModelFlag(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := dial(e.address, completionTimeout)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := c.bounded(cmd.Context())
	defer cancel()
	page, err := c.models.ListModels(ctx, &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: completionModels})
	if c.close(err) != nil {
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
	// The flag has just been added, which is all that can fail here.
	if err := cmd.RegisterFlagCompletionFunc("model", e.completeModelFlag); err != nil {
		panic("cli: " + err.Error())
	}
}
