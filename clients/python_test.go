// Package clients_test runs the tests of the clients in other languages.
package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/servertest"
)

// TestPython runs the tests of the Python client against the server of this module. The
// target test-python of the Makefile runs the same tests alone.
func TestPython(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("end to end: run make test-e2e, or set HINDSIGHT_E2E=1")
	}
	python := pythonWithGRPC(t)
	server, err := servertest.Program(t.Context(), "..", t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	tests := exec.CommandContext(ctx, python, "-m", "unittest", "discover", "-v", "-t", ".", "-s", "tests")
	tests.Dir = "python"
	tests.Env = append(os.Environ(), "HINDSIGHT_SERVER="+server, "PYTHONDONTWRITEBYTECODE=1")
	tests.WaitDelay = 10 * time.Second
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%v %v", tests, string(out))
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "skipped") || strings.HasPrefix(line, "Ran ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	assert.True(t, strings.Contains(string(out), "\nRan ") && !strings.Contains(string(out), "\nRan 0 "), "no test has run:\n%s", out)
}

// wheelProgram is a program of the installed wheel. It names the server's program.
const wheelProgram = `
import hindsight, hindsight._local
with hindsight.local() as client:
    print(hindsight._local.program(), client.create("wheel", {"dimension": 1}).observe([1], 2).sequence)
`

// TestPythonWheel builds the wheel of this machine's platform, installs it into an environment without
// the network, and starts the server that it contains.
func TestPythonWheel(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("end to end: run make test-e2e, or set HINDSIGHT_E2E=1")
	}
	python := pythonWithGRPC(t)
	if exec.CommandContext(t.Context(), python, "-c", "import setuptools, wheel, venv, pip").Run() != nil {
		t.Skip("no pip, setuptools, venv and wheel: on Debian, apt-get install python3-pip python3-setuptools python3-venv python3-wheel")
	}
	dir := t.TempDir()
	run := func(name string, arguments ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, name, arguments...)
		command.WaitDelay = 10 * time.Second
		command.Env = append(os.Environ(), "HINDSIGHT_SERVER=", "PYTHONPATH=", "PYTHONDONTWRITEBYTECODE=1")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%v %v", command, string(out))
		return string(out)
	}
	run(python, "python/tools/wheels.py", dir, "test", runtime.GOOS+"/"+runtime.GOARCH)
	wheels, err := filepath.Glob(filepath.Join(dir, "hindsight_learning-*-py3-none-*.whl"))
	require.True(t, err == nil && len(wheels) == 1, "wheels: %v, %v, want one", wheels, err)
	environment := filepath.Join(dir, "environment")
	run(python, "-m", "venv", "--system-site-packages", "--without-pip", environment)
	installed := filepath.Join(environment, "bin", "python")
	run(python, "-m", "pip", "--python", installed, "install", "--no-index", "--quiet", wheels[0])
	program, sequence, _ := strings.Cut(strings.TrimSpace(run(installed, "-c", wheelProgram)), " ")
	if !strings.HasPrefix(program, environment) || !strings.HasSuffix(program, "hindsight/_bin/hindsight-server") || sequence != "1" {
		t.Errorf("the server is %s, in %s wanted, and learned observation %s", program, environment, sequence)
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
