// Package command is the frame of the command line programs: shared flags, exit codes, and the
// forms of an answer: a table for people, JSON for programs.
package command

import (
	"context"
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
	"hindsight/internal/dataset"
	"hindsight/internal/nearest"
)

// The exit codes.
const (
	exitOK          = 0
	exitRejected    = 1   // the server rejected the call, or another failure
	exitUsage       = 2   // a mistake in the flags, a file or a spec
	exitUnreachable = 3   // no server answered
	exitInterrupted = 130 // a signal ended the command
)

const (
	defaultAddress = "127.0.0.1:50051"
	defaultTimeout = 10 * time.Second
	addressEnv     = "HINDSIGHT_ADDRESS"
)

// Program is one run of a program: its standard streams and its shared flags.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Flags of the commands that call a server; see ServerFlags.
	Address string
	Timeout time.Duration

	connection connection

	json    bool
	root    *cobra.Command
	server  bool // ServerFlags was called
	started bool // flags and arguments were correct
	emitted bool // the answer was written
}

// Main runs the program of the process and returns its exit code. The first interrupt ends the
// context of run. A second interrupt kills the process.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Root makes root the command line of the program and adds --json.
func (p *Program) Root(root *cobra.Command) {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return p.checkFlags() }
	root.Args = cobra.ArbitraryArgs // Group rejects them.
	root.RunE = Group
	root.PersistentFlags().BoolVar(&p.json, "json", false, "print one JSON document instead of a table")
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(flagError)
	p.root = root
}

// ServerFlags adds the flags of the commands that call a server.
func (p *Program) ServerFlags(flags *pflag.FlagSet) {
	address := defaultAddress
	if a := os.Getenv(addressEnv); a != "" {
		address = a
	}
	flags.StringVar(&p.Address, "address", address, "address of the server, or comma-separated addresses of a cluster; the default port is 50051; the environment variable "+addressEnv+" changes the default")
	flags.DurationVar(&p.Timeout, "timeout", defaultTimeout, "timeout of a call")
	p.connection.flags(flags)
	p.server = true
}

func (p *Program) checkFlags() error {
	if p.server && p.Timeout <= 0 {
		return Usagef("--timeout must be positive, not %v", p.Timeout)
	}
	if p.server {
		if err := p.connection.checkEnv(); err != nil {
			return err
		}
		address, err := client.Address(p.Address)
		if err != nil {
			return Usagef("--%w", err)
		}
		p.Address = address
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
	if !p.emitted && (p.json || !p.started && slices.Contains(args, "--json")) {
		p.json = true
		document := struct {
			Error *Failure `json:"error"`
		}{f}
		if err := p.Emit(document, nil); err != nil {
			p.Say("%s: %v", p.root.Name(), err)
		}
	}
	return f.ExitCode
}

// flagError adds the nearest flag to the error of an unknown flag, and the wanted kind of value
// to the error of a wrong value.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		meant := nearest.Name(unknown.GetSpecifiedName(), names)
		if slices.Contains([]string{"server", "host", "url"}, unknown.GetSpecifiedName()) && slices.Contains(names, "address") {
			meant = "address"
		}
		if meant != "" {
			return Usagef("%w; is it %q?", err, "--"+meant)
		}
	case errors.As(err, &invalid):
		if want := wanted(invalid.GetFlag().Value.Type()); want != "" {
			return Usagef("--%s: got %q, want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
		}
	}
	return &UsageError{err}
}

// wanted describes the values of a type of flag. It is empty where the error describes them.
func wanted(kind string) string {
	switch kind {
	case "float64":
		return "a number"
	case "int", "int32", "int64":
		return "an integer"
	case "uint", "uint32", "uint64":
		return "an integer, 0 or more"
	case "duration":
		return "a time span with its unit, such as 500ms, 10s or 24h"
	case "bool":
		return "true or false"
	default:
		return ""
	}
}

// Say writes a line for people to standard error. Its errors are ignored: they could be reported
// nowhere.
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
	rejected := client.FromError(err)
	if rejected != nil {
		f.Code, f.Reason = client.CodeName(rejected.Code), rejected.Reason
	}
	switch {
	case f.ExitCode == exitUnreachable:
		f.Message = p.unreachable(err, f.Message)
	case f.ExitCode == exitInterrupted && rejected != nil && rejected.Is(context.Canceled):
		f.Message = "interrupted" // The words of gRPC say no more.
	}
	return f
}

// unreachable names the server that did not answer, and says what to do unless the error does or
// the server is not the server of the flags.
func (p *Program) unreachable(err error, message string) string {
	rejected := client.FromError(err)
	addresses, _ := client.Addresses(p.Address) // They were dialed.
	at := strings.Join(addresses, ",")
	other := rejected.Address()
	switch elsewhere := other != "" && other != at; {
	case rejected.Advice() != "" && elsewhere:
		return fmt.Sprintf("no answer of the server at %s: %s", other, message)
	case rejected.Advice() != "":
		return fmt.Sprintf("no answer of the server at %s: %s", p.Address, message)
	case elsewhere:
		return fmt.Sprintf("no server answered at %s: %s", other, message)
	}
	return fmt.Sprintf("no server answered at %s: %s; start one with \"hindsight-server --data-dir DIR\", or name another with --address or %s",
		p.Address, message, addressEnv)
}

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
		return exitRejected
	}
}

func isUnreachable(err error) bool {
	rejected := client.FromError(err)
	return rejected != nil && rejected.Is(client.ErrUnreachable)
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

// Group runs a command that only holds subcommands: it prints the help.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		var names []string
		for _, c := range cmd.Commands() {
			if c.Flags().Lookup(args[0]) != nil { // model undelete
				return Usagef("unknown command %q for %q; is it \"%s --%s\"?", args[0], cmd.CommandPath(), c.Name(), args[0])
			}
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		return Usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), nearest.Meant(args[0], names))
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
