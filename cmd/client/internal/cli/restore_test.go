package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hindsight/cmd/internal/child"
	"hindsight/internal/servertest"
)

// build builds the server once for all tests.
var build = sync.OnceValues(func() (string, error) {
	return servertest.Program(context.Background(), "../../../..", programs)
})

// realServer starts the server until the test ends.
func realServer(t *testing.T) *child.Server {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: the server program")
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s, err := child.Start(t.Context(), program, "--data-dir", filepath.Join(t.TempDir(), "data"), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("HINDSIGHT_ADDRESS", s.GRPC)
	return s
}

// TestReplayWithTheServer creates auto from the file, and serves it while labels are late.
func TestReplayWithTheServer(t *testing.T) {
	realServer(t)
	csv, _ := table(t, 300, true)
	for _, delay := range []string{"1", "20"} {
		args := []string{"replay", "--csv", csv, "--model", "m" + delay, "--create", "{}", "--run", "r", "--delay", delay}
		d := document(t, 0, args...)
		if stat(d, "learner") != "auto" || d["acknowledged"] != 300.0 || d["verdict"] == nil || d["servedVerdict"] == nil {
			t.Errorf("delay %s: %v", delay, d)
		}
		// Every id is known, and nothing is learned again.
		again := document(t, 0, args...)
		if again["duplicates"] != 300.0 || again["lossSum"] != d["lossSum"] || stat(again, "stateDigest") != stat(d, "stateDigest") {
			t.Errorf("delay %s: again %v", delay, again)
		}
	}
}

// TestReplayInBatchesWithTheServer: rows that are observed in batches leave the state, the
// losses and the regret of one call after another.
func TestReplayInBatchesWithTheServer(t *testing.T) {
	realServer(t)
	csv, _ := table(t, 400, true)
	outcomes := func(id string, mode ...string) (string, map[string]any) {
		out := filepath.Join(t.TempDir(), "out.csv")
		d := document(t, 0, append([]string{"replay", "--csv", csv, "--model", id, "--create", "{}", "--run", "r", "--out", out}, mode...)...)
		return read(t, out), d
	}
	want, turn := outcomes("turn", "--serve")
	got, batches := outcomes("batches")
	if got != want || batches["lossSum"] != turn["lossSum"] || stat(batches, "stateDigest") != stat(turn, "stateDigest") || stat(batches, "regret") != stat(turn, "regret") {
		t.Errorf("in batches %v, in turn %v", batches, turn)
	}
	if again, d := outcomes("batches"); again != want || d["duplicates"] != 400.0 || stat(d, "stateDigest") != stat(turn, "stateDigest") {
		t.Errorf("again %v", d)
	}
	// Half of the rows were served by an earlier run.
	outcomes("both", "--serve", "--limit", "150")
	if both, d := outcomes("both"); both != want || d["duplicates"] != 150.0 || stat(d, "stateDigest") != stat(turn, "stateDigest") {
		t.Errorf("served, then in batches %v", d)
	}
}

// On the real server a model goes back to an earlier state and is copied to
// another id.
func TestTimeTravelWithTheServer(t *testing.T) {
	dir := t.TempDir()
	realServer(t)
	document(t, 0, "model", "create", "m", "--spec", `{"dimension": 1, "linear_awv": {}}`)
	observe := func(id, x, y string) map[string]any {
		return document(t, 0, "observe", "--model", "m", "--features", x, "--label", y, "--observation-id", id)
	}
	digest := func(id string) any { return document(t, 0, "model", "stats", id)["stateDigest"] }
	observe("a", "1", "1")
	observe("b", "2", "2")
	snapshot := document(t, 0, "model", "snapshots", "m", "--write")["snapshots"].([]any)[0].(map[string]any)
	if snapshot["sequence"] != "2" || snapshot["stateDigest"] != digest("m") {
		t.Errorf("snapshot %v", snapshot)
	}
	observe("c", "3", "-99")
	file := filepath.Join(dir, "m.hs")
	if d := document(t, 0, "model", "export", "m", file); d["file"] != file || d["bytes"].(float64) < 100 {
		t.Errorf("export %v", d)
	}
	if r := run(t, "model", "export", "m", file); r.code != 2 || !strings.Contains(r.errors, "--force") {
		t.Errorf("over a file: %+v", r)
	}
	bare := filepath.Join(dir, "bare.hs")
	if with, without := document(t, 0, "model", "export", "m", file, "--force"), document(t, 0, "model", "export", "m", bare, "--without-ids"); with["bytes"].(float64) <= without["bytes"].(float64) {
		t.Errorf("with ids %v, without %v", with, without)
	}
	if r := run(t, "model", "export", "nobody", filepath.Join(dir, "none.hs")); r.code != 1 || !strings.Contains(r.errors, "MODEL_NOT_FOUND") {
		t.Errorf("of nobody: %+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*none*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	whole := digest("m")
	if r := run(t, "model", "restore", "m", "--sequence", "2"); r.code != 2 || !strings.Contains(r.errors, "1 of 3 observations") || digest("m") != whole {
		t.Errorf("without --yes: %+v", r)
	}
	if r := run(t, "model", "restore", "m", "--yes"); r.code != 2 || !strings.Contains(r.errors, "--sequence") {
		t.Errorf("without a sequence: %+v", r)
	}
	for _, wrong := range [][]string{{"--at", "yesterday"}, {"--at", "2026-03-01T09:30:00Z", "--sequence", "2"}} {
		if r := run(t, append([]string{"model", "restore", "m", "--yes"}, wrong...)...); r.code != 2 || !strings.Contains(r.errors, "--at") || digest("m") != whole {
			t.Errorf("%v: %+v", wrong, r)
		}
	}
	if r := run(t, "model", "restore", "m", "--at", "2001-03-01T09:30:00Z", "--yes"); r.code != 1 || !strings.Contains(r.errors, "was created at") {
		t.Errorf("a time before the model: %+v", r)
	}
	if d := document(t, 0, "model", "restore", "m", "--at", time.Now().Format(time.RFC3339Nano), "--yes"); d["sequence"] != "3" || digest("m") != whole {
		t.Errorf("restored %v", d)
	}
	if d := document(t, 0, "model", "restore", "m", "--sequence", "2", "--yes"); d["sequence"] != "2" || digest("m") != snapshot["stateDigest"] {
		t.Errorf("restored %v", d)
	}
	if o := observe("c", "3", "3"); o["duplicate"] == true || o["sequence"] != "3" {
		t.Errorf("corrected: %v", o)
	}
	if r := run(t, "model", "snapshots", "m"); r.code != 0 || !strings.HasPrefix(r.out, "SEQUENCE") || !strings.Contains(r.out, snapshot["stateDigest"].(string)) {
		t.Errorf("%+v", r)
	}
	if d := document(t, 0, "model", "import", "copy", file); d["sequence"] != "3" || digest("copy") != whole {
		t.Errorf("import %v", d)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := runWith(t.Context(), string(data), "model", "import", "again", "-"); r.code != 0 || digest("again") != whole {
		t.Errorf("from standard input: %+v", r)
	}
	if r := runWith(t.Context(), string(data[:99]), "model", "import", "half", "-"); r.code != 1 || !strings.Contains(r.errors, "chunk") {
		t.Errorf("half a model: %+v", r)
	}
	if r := run(t, "model", "export", "copy", "-"); r.code != 0 || r.out != string(data) {
		t.Errorf("to standard output: %d, %d bytes of %d", r.code, len(r.out), len(data))
	}
}
