// Command hindsight-research measures the learners of hindsight on published streams and
// against a greedy adversary, and writes research/results.
package main

import (
	"os"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/cli"
)

func main() {
	os.Exit(command.Main(cli.Run))
}
