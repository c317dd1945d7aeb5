package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"hindsight/cmd/server/internal/config"
)

type call struct {
	args           []string
	env            func(string) (string, bool)
	stdout, stderr io.Writer
}

// load reads the settings, and the flags in extra. It returns done if the call has ended with an
// exit code: after --help, or with a bad setting.
func (c call) load(command string, extra ...*pflag.FlagSet) (settings config.Config, code int, done bool) {
	settings, err := config.Load(c.args, c.env, extra...)
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(c.stdout, config.Usage())
		return settings, exitOK, true
	case err != nil:
		return settings, c.fail(command, callError{err}), true
	}
	return settings, exitOK, false
}

// fail prints the error of a command, unless that is errProblems, and returns the exit code.
func (c call) fail(command string, err error) int {
	if errors.Is(err, errProblems) {
		return exitFailed
	}
	if command != "" {
		command += ": "
	}
	fmt.Fprintf(c.stderr, "hindsight-server: %s%v\n", command, err)
	if bad := (callError{}); errors.As(err, &bad) {
		return exitBadCall
	}
	return exitFailed
}

type callError struct{ error }

func (b callError) Unwrap() error { return b.error }

func usagef(format string, args ...any) error {
	return callError{fmt.Errorf("usage: %w", fmt.Errorf(format, args...))}
}

// errProblems is the error of a check that found problems, which its outcome describes.
var errProblems = errors.New("problems were found")

// outcome is the result of a command, printed in JSON or by write.
type outcome interface{ write(w io.Writer) }

type subcommand struct {
	name           string
	flags          *pflag.FlagSet
	json, progress *bool
}

func newSubcommand(name string) *subcommand {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	return &subcommand{name: name, flags: flags, json: flags.Bool("json", false, ""), progress: flags.Bool("progress", false, "")}
}

// run reads the flags, does the work and prints the outcome. It returns exitOK, exitFailed if
// the work failed or found problems, or exitBadCall.
func (s *subcommand) run(c call, work func(config.Config, *progress) (outcome, error)) int {
	settings, code, done := c.load(s.name, s.flags)
	if done {
		return code
	}
	result, err := work(settings, newProgress(c.stderr, *s.progress))
	switch {
	case result == nil:
	case *s.json:
		encoder := json.NewEncoder(c.stdout)
		encoder.SetIndent("", "  ")
		if bad := encoder.Encode(result); bad != nil {
			err = errors.Join(err, bad)
		}
	default:
		result.write(c.stdout)
	}
	if err != nil {
		return c.fail(s.name, err)
	}
	return exitOK
}

// plain runs a command without further flags.
func plain(ctx context.Context, c call, work func(context.Context, config.Config, io.Writer) error) int {
	settings, code, done := c.load("")
	if done {
		return code
	}
	if err := work(ctx, settings, c.stderr); err != nil {
		return c.fail("", err)
	}
	return exitOK
}
