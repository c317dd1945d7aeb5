// Package command is what the command line programs of the project have in
// common: the flags that their commands share, the exit codes, and the two
// forms of an answer, a table for people and one JSON document for programs.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hindsight/client"
	"hindsight/cmd/internal/dataset"
)

// The exit codes.
const (
	exitOK          = 0
	exitRefused     = 1   // the server refused, or another failure
	exitUsage       = 2   // a mistake in the flags, a file or a spec
	exitUnreachable = 3   // no server answered
	exitInterrupted = 130 // a signal ended the command
)

const (
	defaultAddress = "127.0.0.1:50051"
	defaultTimeout = 10 * time.Second
	addressEnv     = "HINDSIGHT_ADDRESS"
)

// Program is one run of a program: its standard streams, and the flags that
// its commands share.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Address is where the server listens, Timeout the longest wait for the
	// answer to a call. ServerFlags sets both.
	Address string
	Timeout time.Duration
	// JSON says that the answer is one JSON document.
	JSON bool

	root    *cobra.Command
	server  bool // ServerFlags was called
	started bool // flags and arguments were correct
	emitted bool // the answer was written
}

// Main runs the program of the process and returns its exit code. The first
// interrupt ends the context of run. A second one kills the process.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Root makes root the command line of the program and gives it the flag
// --json.
func (p *Program) Root(root *cobra.Command) {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return p.start() }
	root.RunE = Group
	root.PersistentFlags().BoolVar(&p.JSON, "json", false, "print one JSON document")
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	p.root = root
}

// ServerFlags adds the flags of the commands that call a server.
func (p *Program) ServerFlags(flags *pflag.FlagSet) {
	address := defaultAddress
	if a := os.Getenv(addressEnv); a != "" {
		address = a
	}
	flags.StringVar(&p.Address, "address", address, "address of the server; the environment variable "+addressEnv+" changes the default")
	flags.DurationVar(&p.Timeout, "timeout", defaultTimeout, "longest wait for the answer to a call")
	p.server = true
}

// start checks the shared flags.
func (p *Program) start() error {
	if p.server && p.Timeout <= 0 {
		return Usagef("--timeout must be positive, not %v", p.Timeout)
	}
	if p.server && p.Address == "" {
		return Usagef("--address is empty")
	}
	p.started = true
	return nil
}

// Run runs one command line and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	p.root.SetArgs(args)
	err := p.root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	f := p.NewFailure(ctx, err)
	p.Say("%s: %s", p.root.Name(), f.Message)
	if p.JSON || (!p.started && slices.Contains(args, "--json")) {
		p.reportFailure(f)
	}
	return f.ExitCode
}

// reportFailure writes the JSON document of a command that failed before it
// wrote one.
func (p *Program) reportFailure(f *Failure) {
	if p.emitted {
		return
	}
	document := struct {
		Error *Failure `json:"error"`
	}{f}
	if err := p.Emit(document, nil); err != nil {
		p.Say("%s: %v", p.root.Name(), err)
	}
}

// Emit writes the answer of a command: the document as JSON with --json, else
// what human writes. A nil human writes the document in both cases.
func (p *Program) Emit(document any, human func(*Page)) error {
	p.emitted = true
	if !p.JSON && human != nil {
		w := newPage(p.Stdout)
		human(w)
		return w.end()
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := p.Stdout.Write(out.Bytes())
	return err
}

// Say writes a line for people to standard error. An error of that writing
// cannot be reported anywhere, and does not stop the command.
func (p *Program) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Stderr, format+"\n", args...)
}

// Failure is the JSON of an error.
type Failure struct {
	Message  string `json:"message"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	ExitCode int    `json:"exitCode"`
}

// NewFailure returns the failure of an error, with its exit code.
func (p *Program) NewFailure(ctx context.Context, err error) *Failure {
	f := &Failure{Message: strings.Join(strings.Fields(err.Error()), " "), ExitCode: p.exitCode(ctx, err)}
	if refused := client.FromError(err); refused != nil {
		f.Code, f.Reason = client.CodeName(refused.Code), refused.Reason
	}
	return f
}

// exitCode returns the exit code of an error.
func (p *Program) exitCode(ctx context.Context, err error) int {
	var (
		usage *UsageError
		file  *dataset.Error
	)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case !p.started, errors.As(err, &usage), errors.As(err, &file):
		return exitUsage
	case isUnreachable(err):
		return exitUnreachable
	default:
		return exitRefused
	}
}

// isUnreachable tells whether no server answered.
func isUnreachable(err error) bool {
	refused := client.FromError(err)
	return refused != nil && refused.Is(client.ErrUnreachable)
}

// UsageError is a mistake of the user.
type UsageError struct{ Err error }

// Error implements error.
func (u *UsageError) Error() string { return u.Err.Error() }

// Unwrap returns the mistake.
func (u *UsageError) Unwrap() error { return u.Err }

// Usagef returns a usage error.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// Group runs a command that only holds other commands: it prints the help.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return cmd.Help()
}

// Exactly accepts one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return Usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}
