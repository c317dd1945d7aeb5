// Command hindsight calls a hindsight server: it manages models, predicts,
// observes, and takes streams through a model.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"runtime/debug"

	"hindsight/cmd/client/internal/cli"
	"hindsight/cmd/internal/command"
)

// version is set by the linker, or else by main: the version of the module, for example v0.0.0-DATE-COMMIT.
var version = "dev"

func main() {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" {
		version = cmp.Or(info.Main.Version, version)
	}
	os.Exit(command.Main(func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		return cli.Run(ctx, version, args, stdin, stdout, stderr)
	}))
}
