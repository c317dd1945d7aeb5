package main_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hindsight/cmd/internal/child"
	"hindsight/internal/servertest"
)

// moduleRoot is the directory of the module.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	program := read("client/testdata/outside/main.go")
	documented := read("client/README.md")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := servertest.Program(t.Context(), root, dir)
	if err != nil {
		t.Fatal(err)
	}
	// The modules that the build of this one needed are here already.
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	t.Setenv("GOWORK", "off")
	command(t, dir, "go", "mod", "init", "outside")
	command(t, dir, "go", "mod", "edit", "-require", "hindsight@v0.0.0", "-replace", "hindsight="+root)
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(read("go.sum")), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "go", "build", "-o", "outside", ".")
	err = child.Serve(t.Context(), server, func(s *child.Server) error {
		out := command(t, dir, filepath.Join(dir, "outside"), s.GRPC)
		if !strings.Contains(documented, out) {
			t.Errorf("README.md does not show this output:\n%s", out)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
