// Package cli is the command line of the client.
package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/client"
	"hindsight/cmd/client/internal/document"
	"hindsight/cmd/internal/command"
)

// env is the program that a command belongs to.
type env struct{ *command.Program }

// Run runs one command line and returns the exit code. Version is that of the build. Every goroutine that it
// starts has ended when it returns.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{&command.Program{Stdin: stdin, Stdout: stdout, Stderr: stderr, Colours: colours()}}
	root := newRoot(e, version) //nolint:contextcheck // cobra gives every command the context of Run
	return e.Run(ctx, numbersLast(root, args))
}

// colours are those of a traffic light.
func colours() map[string]string {
	return map[string]string{better: "32", asGood: "33", worse: "31", "UNFINISHED": "31"}
}

// newRoot builds the command line.
func newRoot(e *env, version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "hindsight",
		Short: "Client of a hindsight server: online learning with kernels",
		Long: `hindsight calls a hindsight server. It manages models, asks for predictions,
sends labels, and takes whole streams through a model.

Exit codes: 0 done; 1 the server refused; 2 a mistake in the flags, a file or a
spec; 3 no server answered; 130 interrupted.

With -o json every command prints exactly one JSON document on standard output. A
command that failed prints {"error": ...}. Names are in lowerCamelCase and
integers are numbers. With -o csv a list is one line for each of its entries, and
any other answer one line of its values below their names. Messages and progress
go to standard error. Colours are for terminals alone, and not with NO_COLOR.`,
	}
	e.Root(root)
	root.Version = version
	root.Flags().Bool("version", false, "say which version this is, and no more")
	root.SetVersionTemplate("{{.Version}}\n")
	e.ServerFlags(root.PersistentFlags())
	root.AddCommand(
		newModel(e), newPredict(e), newObserve(e),
		newInfer(e), newSize(e), newReplay(e), newSimulate(e), newDemo(e),
		newTop(e), newAlias(e), newVersion(e, version), newMan(),
	)
	return root
}

// emit writes the answer of a command; see command.Program.Emit. A message is
// written as JSON that programs read easily.
func (e *env) emit(doc any, human func(*command.Page)) error {
	if m, ok := doc.(proto.Message); ok {
		raw, err := document.Encode(m)
		if err != nil {
			return err
		}
		doc = raw
	}
	return e.Emit(doc, human)
}

// emitRows writes an answer that is a list; see emit.
func (e *env) emitRows(m proto.Message, header []string, rows [][]any) error {
	raw, err := document.Encode(m)
	if err != nil {
		return err
	}
	return e.EmitRows(raw, header, rows)
}

// numbersLast moves the arguments of a command that takes features behind "--", in their
// order. There a negative number is not parsed as a flag.
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

// flagNamed is the flag of --name or of -n, nil of --name=value.
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

// input parses an input: features, from --features or from the arguments, or a record
// from --inputs.
func (e *env) input(list, inputs string, args []string) (input client.Input, given bool, err error) {
	switch {
	case list != "" && len(args) > 0:
		return input, false, command.Usagef("features are given twice: as --features and as arguments")
	case inputs != "" && (list != "" || len(args) > 0):
		return input, false, command.Usagef("--inputs and features exclude each other")
	case inputs != "":
		raw, err := e.argument(inputs)
		if err != nil {
			return input, false, command.Usagef("inputs: %w", err)
		}
		record := new(structpb.Struct)
		if err := protojson.Unmarshal(raw, record); err != nil {
			return input, false, command.Usagef("inputs: want a JSON object: %s", oneLine(err))
		}
		return client.Record(record), true, nil
	case list != "":
		args = strings.Split(list, ",")
	}
	features, err := numbers("feature", args)
	return client.Features(features...), len(features) > 0, err
}

// inputsUsage is the help of --inputs.
const inputsUsage = "the input by names, a JSON object; @FILE reads a file, @- standard input"

// numbers parses numbers. Errors call them name.
func numbers(name string, texts []string) ([]float64, error) {
	x := make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, command.Usagef("%s %d: %q is out of range", name, i+1, text)
		case err != nil:
			return nil, command.Usagef("%s %d: %q is not a number", name, i+1, text)
		}
		x[i] = v
	}
	return x, nil
}

// exact writes a number with all the digits that are needed to read it back.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
