package main_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/internal/child"
	"hindsight/internal/servertest"
)

// moduleRoot is the directory of the module.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return root
}

// command runs a program and returns what it printed.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, name, args...)
	run.Dir = dir
	var out, errs bytes.Buffer
	run.Stdout, run.Stderr = &out, &errs
	if err := run.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return out.String()
}

// TestOutsideModule builds a program of another module as the documentation says, and
// runs it against the server.
func TestOutsideModule(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: a program of another module")
	}
	root, dir := moduleRoot(t), t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	program := read("client/testdata/outside/main.go")
	documented := read("client/README.md")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	server, err := servertest.Program(t.Context(), root, dir)
	require.NoError(t, err)
	// The modules that the build of this one needed are here already.
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	t.Setenv("GOWORK", "off")
	command(t, dir, "go", "mod", "init", "outside")
	command(t, dir, "go", "mod", "edit", "-require", "hindsight@v0.0.0", "-replace", "hindsight="+root)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(read("go.sum")), 0o600))
	command(t, dir, "go", "build", "-o", "outside", ".")
	err = child.Serve(t.Context(), server, func(s *child.Server) error {
		assert.Contains(t, documented, command(t, dir, filepath.Join(dir, "outside"), s.GRPC))
		return nil
	})
	assert.NoError(t, err)
}
