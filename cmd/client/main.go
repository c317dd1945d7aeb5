// Command hindsight speaks to a hindsight server: it manages models, predicts
// and observes, and replays streams through a model.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"hindsight/cmd/client/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, a second one kills.
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
