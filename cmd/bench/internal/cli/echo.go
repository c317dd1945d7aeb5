package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hindsight/cmd/bench/internal/echo"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
)

// echoLimit bounds the start and the end of the echo.
const echoLimit = time.Minute

// newEcho builds "echo", the process that "serve" and "sizing" measure beside a server.
func newEcho(p *command.Program) *cobra.Command {
	var grpcAddress, httpAddress string
	cmd := &cobra.Command{
		Use:    "echo",
		Short:  "Run the bare gRPC server that serve measures beside a server",
		Hidden: true,
		Args:   command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return echo.Serve(cmd.Context(), grpcAddress, httpAddress, p.Stderr)
		},
	}
	cmd.Flags().StringVar(&grpcAddress, "grpc-address", "127.0.0.1:0", "where gRPC listens")
	cmd.Flags().StringVar(&httpAddress, "http-address", "127.0.0.1:0", "where the metrics are served")
	return cmd
}

// withEcho starts "echo" in a process of its own, calls do and stops the process.
func withEcho(ctx context.Context, do func(*child.Server) error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the echo: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, echoLimit)
	defer cancel()
	server, err := child.Start(starting, self, "echo")
	if err != nil {
		return fmt.Errorf("start the echo: %w", err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), echoLimit)
		defer cancel()
		err = errors.Join(err, server.Stop(stopping))
	}()
	return do(server)
}

// metricsOf returns the URL of the metrics of a child process.
func metricsOf(s *child.Server) string { return "http://" + s.HTTP + "/metrics" }
