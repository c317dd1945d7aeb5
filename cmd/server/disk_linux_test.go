package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file system of its own is full. What was acknowledged is there, nothing more is,
// predictions go on, health and readiness say so. When there is room again the server ends
// to be started again, and learns on.
func TestFullFileSystem(t *testing.T) {
	mounted := t.TempDir()
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=100m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(mounted, syscall.MNT_DETACH)) })
	dir, ballast := filepath.Join(mounted, "data"), filepath.Join(mounted, "ballast")
	p := launch(t, dir)
	// Others take the disk, but for less than a megabyte.
	var usage syscall.Statfs_t
	require.NoError(t, syscall.Statfs(mounted, &usage))
	require.NoError(t, os.WriteFile(ballast, make([]byte, int64(usage.Bavail)*usage.Bsize-1<<20), 0o600))
	acknowledged := p.fillDisk(t)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		got, body := p.ask(t, path, "")
		assert.Equal(t, want, got, "%v %v", path, body)
	}
	require.NoError(t, os.Remove(ballast))
	err := p.await(t)
	assert.True(t, err != nil && strings.Contains(err.Error(), "has room again"), "with room the server ended with %v", err)
	launch(t, dir).refill(t, acknowledged)
}
