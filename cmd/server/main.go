// The hindsight server: online learners behind gRPC.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"hindsight/cmd/server/internal/config"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitBadCall = 2
)

func main() {
	ignoreSignals()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: it runs the subcommand, or serves until the context ends. It
// returns the exit code.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	command := serve
	if len(args) > 0 {
		switch args[0] {
		case "fsck":
			return fsck(ctx, args[1:], env, stdout, stderr)
		case "backup":
			return backUp(ctx, args[1:], env, stdout, stderr)
		case "restore":
			return restore(ctx, args[1:], env, stdout, stderr)
		case "verify":
			return verify(ctx, args[1:], env, stdout, stderr)
		case "token":
			return token(args[1:], env, time.Now, stdout, stderr)
		case "healthcheck":
			command, args = healthcheck, args[1:]
		case "version", "--version":
			fmt.Fprintln(stdout, version)
			return exitOK
		}
	}
	c, err := config.Load(args, env)
	if errors.Is(err, config.ErrHelp) {
		fmt.Fprint(stdout, config.Usage())
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "hindsight-server: %v\n", err)
		return exitBadCall
	}
	if err := command(ctx, c, stderr); err != nil {
		fmt.Fprintf(stderr, "hindsight-server: %v\n", err)
		return exitFailed
	}
	return exitOK
}
