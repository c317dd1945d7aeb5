package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	s, err := child.Start(t.Context(), program, "--data-dir", filepath.Join(t.TempDir(), "data"), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
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
		assert.True(t, stat(d, "learner") == "auto" && d["acknowledged"] == 300.0 && d["verdict"] != nil && d["servedVerdict"] != nil, "delay %s: %v", delay, d)
		// Every id is known, and nothing is learned again.
		again := document(t, 0, args...)
		assert.True(t, again["duplicates"] == 300.0 && again["lossSum"] == d["lossSum"] && stat(again, "stateDigest") == stat(d, "stateDigest"), "delay %s: again %v", delay, again)
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
	again, d := outcomes("batches")
	assert.True(t, again == want && d["duplicates"] == 400.0 && stat(d, "stateDigest") == stat(turn, "stateDigest"), "again %v", d)
	// Half of the rows were served by an earlier run.
	outcomes("both", "--serve", "--limit", "150")
	both, d := outcomes("both")
	assert.True(t, both == want && d["duplicates"] == 150.0 && stat(d, "stateDigest") == stat(turn, "stateDigest"), "served, then in batches %v", d)
}
