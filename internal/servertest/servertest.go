// Package servertest has the server program for the tests that run the program.
package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program returns the path of the server program. The target test of make builds the program once for all
// packages and names it in HINDSIGHT_TEST_SERVER. Without the variable, Program builds the program of the module at root
// into the directory dir, which is an absolute path.
func Program(ctx context.Context, root, dir string) (string, error) {
	if program := os.Getenv("HINDSIGHT_TEST_SERVER"); program != "" {
		// go test does not take a result from its cache if a file that the test looked at has changed.
		if _, err := os.Stat(program); err != nil { //nolint:gosec // who runs the tests names the program
			return "", fmt.Errorf("HINDSIGHT_TEST_SERVER: %w", err)
		}
		return program, nil
	}
	program := filepath.Join(dir, "hindsight-server")
	out, err := exec.CommandContext(ctx, "go", "-C", root, "build", "-o", program, "./cmd/server").CombinedOutput() //nolint:gosec // a test names the directories
	if err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return program, nil
}
