// Command hindsight calls a hindsight server: it manages models, predicts,
// observes, and takes streams through a model.
package main

import (
	"context"
	"io"
	"os"

	"hindsight/cmd/client/internal/cli"
	"hindsight/cmd/internal/command"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(command.Main(func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		return cli.Run(ctx, version, args, stdin, stdout, stderr)
	}))
}
