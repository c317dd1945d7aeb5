package echo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
)

// limit bounds the start and the end of the process.
const limit = time.Minute

// Command builds "echo", the command that With runs in a process of its own.
func Command(p *command.Program) *cobra.Command {
	var grpcAddress, httpAddress string
	cmd := &cobra.Command{
		Use:    "echo",
		Short:  "Run the bare gRPC server that is measured beside a server",
		Hidden: true,
		Args:   command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Serve(cmd.Context(), grpcAddress, httpAddress, p.Stderr)
		},
	}
	cmd.Flags().StringVar(&grpcAddress, "grpc-address", "127.0.0.1:0", "where gRPC listens")
	cmd.Flags().StringVar(&httpAddress, "http-address", "127.0.0.1:0", "where the metrics are served")
	return cmd
}

// With starts Command of the running program in a process of its own, calls do and stops
// the process.
func With(ctx context.Context, do func(*child.Server) error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the echo: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	server, err := child.Start(starting, self, "echo")
	if err != nil {
		return fmt.Errorf("start the echo: %w", err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		err = errors.Join(err, server.Stop(stopping))
	}()
	return do(server)
}
