package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"hindsight/cmd/client/internal/document"
)

const (
	defaultAddress = "127.0.0.1:50051"
	defaultTimeout = 10 * time.Second
	addressEnv     = "HINDSIGHT_ADDRESS"
)

// env is what a command line has to do with: the streams and the flags that
// all commands share.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	address string
	timeout time.Duration
	json    bool

	started bool // flags and arguments were in order
	emitted bool // the answer has been written
}

// newRoot builds the command line.
func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "hindsight",
		Short: "Client of a hindsight server: online learning with kernels",
		Long: `hindsight speaks to a hindsight server: it manages models, asks for
predictions, gives the labels, and takes whole streams through a model.

Exit codes: 0 done, 1 the server refused, 2 a mistake in the flags, a file or a
spec, 3 no server answered, 130 interrupted.

With --json every command prints exactly one JSON document on standard output,
{"error": ...} if it failed. Names are in lowerCamelCase and integers are
numbers. Messages and progress go to standard error.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return e.start() },
		RunE:              group,
	}
	address := defaultAddress
	if a := os.Getenv(addressEnv); a != "" {
		address = a
	}
	flags := root.PersistentFlags()
	flags.StringVar(&e.address, "address", address, "address of the server; the environment variable "+addressEnv+" changes the default")
	flags.DurationVar(&e.timeout, "timeout", defaultTimeout, "longest wait for the answer to a call")
	flags.BoolVar(&e.json, "json", false, "print one JSON document")
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(
		newModel(e), newPredict(e), newObserve(e),
		newReplay(e), newSimulate(e), newDemo(e), newBench(e),
	)
	return root
}

// start checks what the shared flags say.
func (e *env) start() error {
	if e.timeout <= 0 {
		return usagef("--timeout must be positive, not %v", e.timeout)
	}
	if e.address == "" {
		return usagef("--address is empty")
	}
	e.started = true
	return nil
}

// group is what a command does that only holds others.
func group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return cmd.Help()
}

// emit writes the answer of a command: the document as JSON, or what human
// writes, aligned at tabs.
func (e *env) emit(doc any, human func(*page)) error {
	e.emitted = true
	if !e.json && human != nil {
		w := newPage(e.stdout)
		human(w)
		return w.end()
	}
	if m, ok := doc.(proto.Message); ok {
		raw, err := document.Encode(m)
		if err != nil {
			return err
		}
		doc = raw
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(doc); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := e.stdout.Write(out.Bytes())
	return err
}

// exactly asks for n arguments and names them.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// numbersLast puts the numbers among the arguments of a command that takes
// features behind "--", where a negative one is not mistaken for a flag.
func numbersLast(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[takesFeatures] == "" {
		return args
	}
	if err := cmd.ParseFlags(nil); err != nil { // merges the flags of the parents
		return args
	}
	var kept, numbers []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		name, isFlag := strings.CutPrefix(a, "--")
		switch {
		case a == "--":
			return append(append(append(kept, "--"), numbers...), args[i+1:]...)
		case isFlag:
			kept = append(kept, a)
			f := cmd.Flags().Lookup(name) // not found with a value after "="
			if f != nil && f.NoOptDefVal == "" && i+1 < len(args) {
				i++
				kept = append(kept, args[i])
			}
		case isNumber(a):
			numbers = append(numbers, a)
		default:
			kept = append(kept, a)
		}
	}
	if len(numbers) == 0 {
		return kept
	}
	return append(append(kept, "--"), numbers...)
}

// takesFeatures marks the commands whose arguments are numbers.
const takesFeatures = "features"

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// features reads an input from --features or from the arguments.
func features(flag string, args []string) ([]float64, error) {
	if flag != "" {
		if len(args) > 0 {
			return nil, usagef("features are given twice: as --features and as arguments")
		}
		args = strings.Split(flag, ",")
	}
	return numbers("feature", args)
}

// numbers reads numbers, which errors call by a name.
func numbers(name string, texts []string) ([]float64, error) {
	x := make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return nil, usagef("%s %d: %q is not a number", name, i+1, text)
		}
		x[i] = v
	}
	return x, nil
}

// number writes a float for people.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// exact writes a float with every digit it takes to read it back.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
