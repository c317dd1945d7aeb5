// Package clients_test runs the tests of the clients in other languages.
package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests of the Python client pass against the server of this module. The target
// test-python of the Makefile runs them alone.
func TestPython(t *testing.T) {
	python := pythonWithGRPC(t)
	server := filepath.Join(t.TempDir(), "hindsight-server")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../cmd/server").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	tests := exec.CommandContext(ctx, python, "-m", "unittest", "discover", "-v", "-t", ".", "-s", "tests")
	tests.Dir = "python"
	tests.Env = append(os.Environ(), "HINDSIGHT_SERVER="+server, "PYTHONDONTWRITEBYTECODE=1")
	tests.WaitDelay = 10 * time.Second
	out, err := tests.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", tests, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "skipped") || strings.HasPrefix(line, "Ran ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if !strings.Contains(string(out), "\nRan ") || strings.Contains(string(out), "\nRan 0 ") {
		t.Errorf("no test has run:\n%s", out)
	}
}

// pythonWithGRPC is a Python that has grpcio: python3, or Debian's where python3 is
// another one.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with grpcio: on Debian, apt-get install python3-grpcio")
	return ""
}
