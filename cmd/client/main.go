// Command hindsight calls a hindsight server: it manages models, predicts,
// observes, and takes streams through a model.
package main

import (
	"os"

	"hindsight/cmd/client/internal/cli"
	"hindsight/cmd/internal/command"
)

func main() {
	os.Exit(command.Main(cli.Run))
}
