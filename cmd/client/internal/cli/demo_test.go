package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// temporary sets os.TempDir to a new directory of the test and returns it.
func temporary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "hindsight-*"))
	require.NoError(t, err)
	return len(left) == 0
}

func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func TestDemo(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	r := run(t, "demo", "--server", program(t), "--rounds", "300")
	require.Equal(t, 0, r.code, r)
	for _, want := range []string{"rounds  ", "300", "as good as trivial", "skill over the last 1000 rounds", "regret against the best fixed function", "round  skill  regret"} {
		assert.Contains(t, r.out, want)
	}
	for line := range strings.Lines(r.out) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSpace(line))), 100, line)
	}
	assert.True(t, isEmpty(t, dir), "the temporary directory is left")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "20")
	assert.True(t, d["rounds"] == 20.0 && stat(d, "regret") != nil && d["pageUrl"] != "", "document %v", d)
}

func TestDemoTimeLimit(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "3000", "--for", "50ms")
	n, _ := d["acknowledged"].(float64)
	assert.True(t, n >= 1 && n < 3000 && d["error"] == nil, "document %v", d)
}

func TestDemoFails(t *testing.T) {
	for mode, want := range map[string]string{"broken": "exit status 7: no disk", "rude": "exit status 9"} {
		t.Setenv(actAsServer, mode)
		dir := temporary(t)
		r := run(t, "demo", "--server", program(t), "--rounds", "5")
		assert.True(t, r.code == 1 && strings.Contains(r.errors, want) && isEmpty(t, dir), "%s: %+v", mode, r)
	}
	r := run(t, "demo", "--server", "/nonexistent/server")
	assert.NotEqual(t, 0, r.code, r)
}

func TestDemoInterrupted(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	r := runWith(ctx, "", "demo", "--server", program(t), "--rounds", "20000")
	assert.True(t, r.code == 130 && isEmpty(t, dir) && !strings.Contains(r.errors, "continue with"), "%+v", r)
}

// The demo of a cluster loses nothing when the owner is killed, and says so in one line.
func TestDemoOfACluster(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("takes long: make test-e2e runs it")
	}
	program, err := build()
	require.NoError(t, err)
	dir := temporary(t)
	r := run(t, "demo", "--server", program, "--servers", "3", "--rounds", "600", "--for", "6s", "--json")
	var s struct {
		Acknowledged int   `json:"acknowledged"`
		Lost         *int  `json:"lost"`
		Twice        *int  `json:"learned_twice"`
		Gap          int64 `json:"gap_ms"`
		Equal        bool  `json:"digests_equal"`
	}
	err = json.Unmarshal([]byte(r.out), &s)
	require.True(t, err == nil && r.code == 0 && strings.Count(r.out, "\n") == 1, "%v, %+v", err, r)
	assert.True(t, s.Acknowledged != 0 && s.Lost != nil && *s.Lost == 0 && s.Twice != nil && *s.Twice == 0 && s.Gap > 0 && s.Equal && isEmpty(t, dir), r.out)
}
