package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"hindsight/cmd/research/cli"
	"hindsight/internal/servertest"
)

// programs is a directory for programs that tests build.
var programs string

func TestMain(m *testing.M) {
	// "sizing" and "performance" run their own program as the echo.
	if len(os.Args) > 1 && os.Args[1] == "echo" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	var err error
	if programs, err = os.MkdirTemp("", "hindsight-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(programs); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// build builds the server once for all tests.
var build = sync.OnceValues(func() (string, error) {
	return servertest.Program(context.Background(), "../..", programs)
})

// server returns the path of the server program.
func server(t *testing.T) string {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: the server program")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// result is the result of a command line.
type result struct {
	code        int
	out, errors string
}

// run runs a command line.
func run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// document runs a command line with --json and returns its one document.
func document(t *testing.T, want int, args ...string) map[string]any {
	t.Helper()
	r := run(t, append(args, "--json")...)
	if r.code != want {
		t.Fatalf("%v: exit code %d, want %d: %s%s", args, r.code, want, r.out, r.errors)
	}
	var d map[string]any
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatalf("%v in %q", err, r.out)
	}
	return d
}

// entries returns the entries of a document by stream and learner, or by
// learner.
func entries(t *testing.T, d map[string]any) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for _, v := range d["entries"].([]any) {
		e := v.(map[string]any)
		name := e["learner"].(string)
		if stream, ok := e["stream"].(string); ok {
			name = stream + " " + name
		}
		all[name] = e
	}
	return all
}

// content returns the text of a file.
func content(t *testing.T, elements ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// isEmpty reports whether a directory is empty or absent.
func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(left) == 0
}
