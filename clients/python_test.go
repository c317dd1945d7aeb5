// Package clients_test runs the tests of the clients in other languages.
package clients_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBlockingPython checks that the blocking Python client is what its tool writes from the
// client for asyncio.
func TestBlockingPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	written := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python, "python/tools/blocking.py", written).CombinedOutput(); err != nil {
		t.Fatalf("blocking.py: %v\n%s", err, out)
	}
	files, err := os.ReadDir(written)
	if err != nil || len(files) == 0 {
		t.Fatalf("blocking.py wrote no file: %v", err)
	}
	for _, file := range files {
		want, err := os.ReadFile(filepath.Join(written, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("python/hindsight", file.Name())); err != nil || !bytes.Equal(got, want) {
			t.Errorf("hindsight/%s does not belong to hindsight/aio/%[1]s; run: python3 clients/python/tools/blocking.py", file.Name())
		}
	}
}

// TestPython runs the tests of the Python client against the server of this module. The
// target test-python of the Makefile runs the same tests alone.
func TestPython(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("end to end: run make test-e2e, or set HINDSIGHT_E2E=1")
	}
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

// pythonWithGRPC returns a Python that has grpcio: python3, or Debian's.
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
