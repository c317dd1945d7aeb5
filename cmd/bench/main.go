// Command hindsight-bench measures learners: on published streams, and against
// a greedy adversary.
package main

import (
	"os"

	"hindsight/cmd/bench/internal/cli"
	"hindsight/cmd/internal/command"
)

func main() {
	os.Exit(command.Main(cli.Run))
}
