// Package cli is the command line of hindsight-research.
package cli

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/echo"
)

// resultsDirectory is the default of --out: the committed results.
func resultsDirectory() string { return filepath.FromSlash("research/results") }

// Run runs one command line and returns the exit code. When Run returns, every goroutine
// that it started has ended.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &command.Program{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	root := &cobra.Command{
		Use:   "hindsight-research",
		Short: "Measure the learners of hindsight on published streams, and what they cost",
		Long: `hindsight-research measures the learners of hindsight: on published streams, as
vectors and as records of named columns, and against a greedy adversary. It measures
what models cost a server, and simulates large clusters.

Exit codes: 0 done; 1 the server rejected the call; 2 a mistake in the flags or a file;
3 no server answered; 130 interrupted.

With --json every command prints exactly one JSON document on standard output.
A command that failed prints {"error": ...}. Progress goes to standard error.`,
	}
	p.Root(root)
	root.AddCommand(newPapers(p), newRecords(p), newAdversary(p), newSizing(p), newSize(p), newPerformance(p), newCluster(p), echo.Command(p)) //nolint:contextcheck // cobra gives every command the context of Run
	return p.Run(ctx, args)
}
