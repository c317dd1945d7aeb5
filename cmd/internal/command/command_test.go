package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hindsight/cmd/internal/command"
	"hindsight/internal/dataset"
)

// run runs a program with one command, act.
func run(ctx context.Context, act func(*command.Program) error, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	p := &command.Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}
	root := &cobra.Command{Use: "program"}
	p.Root(root)
	p.ServerFlags(root.PersistentFlags())
	root.AddCommand(&cobra.Command{Use: "act", Args: command.Exactly("NAME"), RunE: func(*cobra.Command, []string) error { return act(p) }})
	code = p.Run(ctx, args)
	return code, stdout.String(), stderr.String()
}

func TestExitCodes(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		err  error
		args []string
		want int
	}{
		{"done", nil, []string{"act", "a"}, 0},
		{"other", errors.New("other"), []string{"act", "a"}, 1},
		{"rejected", status.Error(codes.NotFound, "no model"), []string{"act", "a"}, 1},
		{"usage", fmt.Errorf("flag: %w", command.Usagef("wrong")), []string{"act", "a"}, 2},
		{"file", fmt.Errorf("read: %w", &dataset.Error{File: "f", Err: errors.New("wrong")}), []string{"act", "a"}, 2},
		{"unreachable", status.Error(codes.Unavailable, "rejected"), []string{"act", "a"}, 3},
		{"interrupted", errors.New("other"), []string{"act", "a"}, 130},
		{"interrupted", status.Error(codes.Canceled, "context canceled"), []string{"act", "a"}, 130},
		{"no argument", nil, []string{"act"}, 2},
		{"unknown command", nil, []string{"play"}, 2},
		{"unknown flag", nil, []string{"act", "a", "--fast"}, 2},
		{"no timeout", nil, []string{"act", "a", "--timeout", "0s"}, 2},
		{"no address", nil, []string{"act", "a", "--address", ""}, 2},
	} {
		act := func(*command.Program) error { return c.err }
		ctx := t.Context()
		if c.name == "interrupted" {
			ctx = ended
		}
		code, out, errs := run(ctx, act, c.args...)
		if code != c.want || out != "" || (code == 0) != (errs == "") || strings.Count(errs, "\n") > 1 {
			t.Errorf("%s: exit code %d, want %d; %q, %q", c.name, code, c.want, out, errs)
		}
		assert.False(t, strings.Contains(errs, "cancel"), "%s: %q in the words of gRPC", c.name, errs)
		code, out, _ = run(ctx, act, append(c.args, "--json")...)
		if code == 0 {
			continue
		}
		var d struct {
			Error command.Failure `json:"error"`
		}
		err := json.Unmarshal([]byte(out), &d)
		assert.True(t, err == nil && d.Error.ExitCode == c.want && d.Error.Message != "", "%s: %q, %v", c.name, out, err)
	}
}

// A terminal obeys no name that another has given.
func TestPageHasNoControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[2J":  "name  \ufffd[2J\n",
		"\x9b31m":  "name  \ufffd31m\n",
		"\u009b0m": "name  \ufffd0m\n",
		"a\rb\x7f": "name  a\ufffdb\ufffd\n",
		"Zürich":   "name  Zürich\n",
	} {
		code, out, errs := run(t.Context(), func(p *command.Program) error {
			return p.Emit(text, func(w *command.Page) { w.Row("name", text) })
		}, "act", "a")
		assert.True(t, code == 0 && out == want, "%q: %d %q %s, want %q", text, code, out, errs, want)
	}
}

// A command that fails after its answer writes no second document.
func TestEmit(t *testing.T) {
	act := func(p *command.Program) error {
		answer := map[string]command.Finite{"known": 1.5, "unknown": command.Finite(math.NaN())}
		if err := p.Emit(answer, func(w *command.Page) { w.Row("name", "value"); w.Row("a longer name", 1.0/3) }); err != nil {
			return err
		}
		return errors.New("too late")
	}
	code, out, errs := run(t.Context(), act, "act", "a")
	want := "name           value\na longer name  0.333\n"
	assert.True(t, code == 1 && out == want && errs == "program: too late\n", "%d, %q, %q", code, out, errs)
	code, out, _ = run(t.Context(), act, "act", "a", "--json")
	want = "{\n  \"known\": 1.5,\n  \"unknown\": null\n}\n"
	assert.True(t, code == 1 && out == want, "%d, %q", code, out)
}
