package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe is read as a file is, though commands read a file several times.
func TestPipes(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	serving(t)
	dir := temporary(t)
	const rows = "x,y\n1.5,2\n2.5,3\n3.5,5\n"
	file := written(t, "rows.csv", rows)
	fifo := func() (path string) {
		path = filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		done := make(chan error, 1)
		go func() { done <- os.WriteFile(path, []byte(rows), 0) }()
		t.Cleanup(func() { assert.NoError(t, <-done) })
		return path
	}
	for name, args := range map[string][]string{
		"replay":  {"replay", "--csv", fifo(), "--model", "m", "--create", "{}", "--target", "y"},
		"compare": {"compare", "--csv", fifo(), "--target", "y", "--learners", "auto"},
		"infer":   {"infer", "--csv", fifo(), "--target", "y"},
		"predict": {"predict", "--local", "--server", program(t), "--train", fifo(), "--csv", file, "--target", "y"},
		"both":    {"predict", "--local", "--server", program(t), "--train", fifo(), "--csv", fifo(), "--target", "y"},
	} {
		r := run(t, args...)
		assert.Equal(t, 0, r.code, "%v %v", name, r)
	}
	r := runWith(t.Context(), "x,y\n1,2\n3\n", "infer", "--csv", "-")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "standard input: line 3"), "infer of standard input: %+v", r)
	assert.True(t, isEmpty(t, dir), "a temporary file is left")
}
