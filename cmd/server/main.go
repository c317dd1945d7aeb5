// The hindsight server: online learners behind gRPC.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// version is set by the linker, or else by main: the version of the module, for example v0.0.0-DATE-COMMIT.
var version = "dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitBadCall = 2
)

func main() {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" {
		version = cmp.Or(info.Main.Version, version)
	}
	ignoreSignals()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, call{os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, c call) int {
	if len(c.args) == 0 {
		return plain(ctx, c, serve)
	}
	rest := c
	rest.args = c.args[1:]
	switch c.args[0] {
	case "backup":
		return backUp(ctx, rest)
	case "cluster":
		return clusterCommand(rest) //nolint:contextcheck // A directory is opened whole or not at all.
	case "fsck":
		return fsck(ctx, rest)
	case "healthcheck":
		return plain(ctx, rest, healthcheck)
	case "restore":
		return restore(ctx, rest)
	case "token":
		return token(rest, time.Now)
	case "verify":
		return verify(ctx, rest)
	case "version", "--version":
		fmt.Fprintln(c.stdout, version)
		return exitOK
	}
	return plain(ctx, c, serve)
}
