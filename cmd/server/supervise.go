package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/systemd"
	"hindsight/internal/engine"
	"hindsight/internal/rpc"
)

// supervised returns what tells systemd of the server until the context ends: that it
// lives when gRPC answers the health check over a connection within the process, whatever
// the answer is, and the engine gives its table of models. The connection takes none of the places of the
// clients, so a server whose places are all taken serves. It is made at once, before the
// server can drain.
func supervised(ctx context.Context, log *zap.Logger, server *rpc.Server, models *engine.Engine) func() error {
	local, err := server.Local()
	if err != nil {
		return func() error { return err }
	}
	check := func(ctx context.Context) error {
		if err := local.Answers(ctx); err != nil {
			return err
		}
		// No model has this name. The answer takes the lock of the table.
		if _, err := models.Resolve(""); errors.Is(err, engine.ErrClosed) {
			return fmt.Errorf("the engine: %w", err)
		}
		return nil
	}
	return func() error {
		return errors.Join(systemd.Supervise(ctx, log, check), local.Close())
	}
}
