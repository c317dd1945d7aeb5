// Package cli is the command line of the client.
package cli

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
)

type env struct {
	*command.Program
	local localServer
}

// Run runs one command line of a program of a version and returns the exit code. Every
// goroutine that Run starts has ended when Run returns.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{Program: &command.Program{Stdin: stdin, Stdout: stdout, Stderr: stderr}}
	newRoot(e, version) //nolint:contextcheck // cobra gives every command the context of Run
	return e.Run(ctx, args)
}

func newRoot(e *env, version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "hindsight",
		Short: "Client of a hindsight server: online learning with kernels",
		Long: `hindsight calls a hindsight server. It manages models, asks for predictions,
sends labels, and takes whole streams through a model.

Exit codes: 0 success; 1 the server rejected the call; 2 invalid flags, file or spec;
3 no server answered; 130 interrupted.

With --json every command prints exactly one JSON document on standard output, on
failure {"error": ...}. Names are in lowerCamelCase. A message of the API has its standard
JSON, in which 64-bit integers are texts.
Messages and progress go to standard error.`,
	}
	e.Root(root)
	root.Version = version
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("{{.Version}}\n")
	e.ServerFlags(root.PersistentFlags())
	root.AddCommand(e.model(), e.alias(), e.cluster())
	for _, v := range []verb{
		e.predict(), e.observe(), e.infer(), e.replay(), e.compare(), e.demo(), e.top(),
	} {
		root.AddCommand(e.command(v))
	}
	return root
}

// exact writes a number with all the digits that are needed to read it back.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
