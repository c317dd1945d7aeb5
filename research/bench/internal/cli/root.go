// Package cli is the command line of hindsight-bench.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/echo"
)

// Run runs one command line and returns the exit code. When Run returns, every goroutine
// that it started has ended.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &command.Program{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	root := &cobra.Command{
		Use:   "hindsight-bench",
		Short: "Measure a server of hindsight under load",
		Long: `hindsight-bench measures a server of hindsight: its latency, rate and CPU under load.

Exit codes: 0 success; 1 the server rejected the call; 2 invalid flags or file;
3 no server answered; 130 interrupted.

With --json every command prints exactly one JSON document on standard output.
A command that failed prints {"error": ...}. Progress goes to standard error.`,
	}
	p.Root(root)
	root.AddCommand(newServe(p), echo.Command(p)) //nolint:contextcheck // cobra gives every command the context of Run
	return p.Run(ctx, args)
}
