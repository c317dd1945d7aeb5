// Package connection connects a command line program to a server.
package connection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/refusal"
)

// Conn is a connection to a server.
type Conn struct {
	// Models and Predictions are the services of the server.
	Models      hindsightv1.ModelServiceClient
	Predictions hindsightv1.PredictionServiceClient
	// Timeout bounds every call.
	Timeout time.Duration

	conn *grpc.ClientConn
}

// Dial prepares a connection. The first call makes it. Close must be called.
func Dial(address string, timeout time.Duration) (*Conn, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A server that was restarted is found again within a second.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	return &Conn{
		Models:      hindsightv1.NewModelServiceClient(conn),
		Predictions: hindsightv1.NewPredictionServiceClient(conn),
		Timeout:     timeout,
		conn:        conn,
	}, nil
}

// Bounded returns the context of one call.
func (c *Conn) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.Timeout)
}

// Mark marks err as that of an unreachable server if the time ended before
// there was a connection.
func (c *Conn) Mark(err error) error {
	code, _ := refusal.Code(err)
	if code == codes.DeadlineExceeded && c.conn.GetState() != connectivity.Ready {
		return &unreachableError{err}
	}
	return err
}

// Close ends the connection. It returns err, marked, joined with its own
// error.
func (c *Conn) Close(err error) error {
	return errors.Join(c.Mark(err), c.conn.Close())
}

// Unreachable tells whether err says that no server answered.
func Unreachable(err error) bool {
	var marked *unreachableError
	return errors.As(err, &marked) || refusal.Unreachable(err)
}

// unreachableError is a call that ended before there was a connection.
type unreachableError struct{ err error }

func (u *unreachableError) Error() string { return u.err.Error() }
func (u *unreachableError) Unwrap() error { return u.err }
