// Package cli is the command line of the client.
package cli

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hindsight/cmd/internal/command"
)

// env is the program that a command belongs to.
type env struct {
	*command.Program
	own localServer
}

// Run runs one command line of a program of a version and returns the exit code. Every
// goroutine that Run starts has ended when Run returns.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The colours of a traffic light.
	colours := map[string]string{better: "32", asGood: "33", worse: "31", "UNFINISHED": "31"}
	e := &env{Program: &command.Program{Stdin: stdin, Stdout: stdout, Stderr: stderr, Colours: colours}}
	root := newRoot(e, version) //nolint:contextcheck // cobra gives every command the context of Run
	return e.Run(ctx, numbersLast(root, args))
}

// newRoot builds the command line.
func newRoot(e *env, version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "hindsight",
		Short: "Client of a hindsight server: online learning with kernels",
		Long: `hindsight calls a hindsight server. It manages models, asks for predictions,
sends labels, and takes whole streams through a model.

Exit codes: 0 success; 1 the server rejected the call; 2 invalid flags, file or spec;
3 no server answered; 130 interrupted.

With -o json every command prints exactly one JSON document on standard output, on
failure {"error": ...}. Names are in lowerCamelCase and integers are numbers.
Messages and progress go to standard error. NO_COLOR switches colours off.`,
	}
	e.Root(root)
	root.Version = version
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("{{.Version}}\n")
	e.ServerFlags(root.PersistentFlags())
	root.AddCommand(e.model(), e.alias(), e.cluster())
	for _, v := range []verb{
		e.predict(), e.observe(), e.infer(), e.size(), e.replay(), e.compare(), e.demo(), e.top(),
	} {
		root.AddCommand(e.command(v))
	}
	return root
}

// numbersLast moves the arguments of a command that takes features behind "--", in their
// order. Behind "--" a negative number is not parsed as a flag.
func numbersLast(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[takesFeatures] == "" {
		return args
	}
	if err := cmd.ParseFlags(nil); err != nil { // It adds the flags of the parents.
		return args
	}
	var kept, features []string
	named := false // the command was named
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return append(append(append(kept, "--"), features...), args[i+1:]...)
		case !named && a == cmd.Name():
			named = true
			kept = append(kept, a)
		case isNumber(a) || !strings.HasPrefix(a, "-"):
			features = append(features, a)
		default:
			kept = append(kept, a)
			if f := flagNamed(cmd, a); f != nil && f.NoOptDefVal == "" && i+1 < len(args) {
				i++
				kept = append(kept, args[i])
			}
		}
	}
	if len(features) == 0 {
		return kept
	}
	return append(append(kept, "--"), features...)
}

// flagNamed is the flag of --name or of -n. It is nil for --name=value.
func flagNamed(cmd *cobra.Command, argument string) *pflag.Flag {
	if name, long := strings.CutPrefix(argument, "--"); long {
		return cmd.Flags().Lookup(name)
	}
	if short := argument[1:]; len(short) == 1 {
		return cmd.Flags().ShorthandLookup(short)
	}
	return nil
}

// takesFeatures is the annotation of the commands whose arguments are numbers.
const takesFeatures = "features"

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// exact writes a number with all the digits that are needed to read it back.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
