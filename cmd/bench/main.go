// Command hindsight-bench measures a server of hindsight under load.
package main

import (
	"os"

	"hindsight/cmd/bench/internal/cli"
	"hindsight/cmd/internal/command"
)

func main() {
	os.Exit(command.Main(cli.Run))
}
