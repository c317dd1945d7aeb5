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
// lives when the gRPC server answers the health check from within the process, whatever the
// answer is, and the engine gives its table of models. The check takes none of the places of
// clients, so a server whose places are all taken still passes.
func supervised(ctx context.Context, log *zap.Logger, server *rpc.Server, models *engine.Engine) func() error {
	local := server.Local()
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
	return func() error { return systemd.Supervise(ctx, log, check) }
}
