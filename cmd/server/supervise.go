package main

import (
	"context"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/systemd"
	"hindsight/internal/rpc"
)

// supervised returns the function that notifies systemd until the context ends. The server is
// alive if the gRPC server answers a health check from within the process with any status, and
// the engine can lock its table of models. The check needs no connection, so a server with
// maxConnections clients is alive.
func supervised(ctx context.Context, log *zap.Logger, server *rpc.Server, models *groups) func() error {
	local := server.Local()
	check := func(ctx context.Context) error {
		if err := local.Answers(ctx); err != nil {
			return err
		}
		return models.answers()
	}
	return func() error { return systemd.Supervise(ctx, log, check) }
}
