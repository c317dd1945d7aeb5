// Command hindsight-bench measures a server of hindsight under load.
package main

import (
	"os"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/bench/internal/cli"
)

func main() {
	os.Exit(command.Main(cli.Run))
}
