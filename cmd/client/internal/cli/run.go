// Package cli is the command line of the client.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"hindsight/cmd/client/internal/dataset"
	"hindsight/cmd/client/internal/refusal"
	"hindsight/cmd/client/internal/stream"
)

// The exit codes.
const (
	exitOK          = 0
	exitRefused     = 1   // the server refused, or something else went wrong
	exitUsage       = 2   // flags, a file or a spec
	exitUnreachable = 3   // no server answered
	exitInterrupted = 130 // by a signal
)

// Run runs one command line and returns the exit code. Every goroutine it
// starts has ended when it returns.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(e) //nolint:contextcheck // a command has the context it is executed with
	root.SetArgs(numbersLast(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := e.exitCode(ctx, err)
	e.say("hindsight: %s", refusal.Describe(err))
	if e.json || (!e.started && slices.Contains(args, "--json")) {
		e.reportFailure(err, code)
	}
	return code
}

// exitCode tells the exit code that belongs to an error.
func (e *env) exitCode(ctx context.Context, err error) int {
	var (
		usage *usageError
		bad   *dataset.Error
		far   *unreachableError
	)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case !e.started, errors.As(err, &usage), errors.As(err, &bad),
		errors.Is(err, stream.ErrUnknown), errors.Is(err, stream.ErrParameter):
		return exitUsage
	case errors.As(err, &far), refusal.Unreachable(err):
		return exitUnreachable
	default:
		return exitRefused
	}
}

// failure is the JSON of an error.
type failure struct {
	Message  string `json:"message"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	ExitCode int    `json:"exitCode"`
}

func newFailure(err error, code int) *failure {
	f := &failure{Message: refusal.Describe(err), Reason: refusal.Reason(err), ExitCode: code}
	if c, ok := refusal.Code(err); ok && c != codes.OK {
		f.Code = refusal.CodeName(c)
	}
	return f
}

// reportFailure writes the JSON document of a command that has failed before
// it wrote one.
func (e *env) reportFailure(err error, code int) {
	if e.emitted {
		return
	}
	document := struct {
		Error *failure `json:"error"`
	}{newFailure(err, code)}
	if err := e.emit(document, nil); err != nil {
		e.say("hindsight: %v", err)
	}
}

// usageError is a mistake in what the user gave.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

// usagef returns a usage error.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// unreachableError is a call that ended before a connection was made.
type unreachableError struct{ err error }

func (u *unreachableError) Error() string { return u.err.Error() }
func (u *unreachableError) Unwrap() error { return u.err }

// oneLine trims what protojson puts before its errors.
func oneLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(s, "proto: ")
}
