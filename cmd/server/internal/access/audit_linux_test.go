package access_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/access"
	"hindsight/internal/auth"
)

// A line that a full disk cuts, or a crash, takes no other line with it. What was lost is
// counted.
func TestAuditLogOfAFullDisk(t *testing.T) {
	mounted := t.TempDir()
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(mounted, syscall.MNT_DETACH)) })
	path, ballast := filepath.Join(mounted, "audit.log"), filepath.Join(mounted, "ballast")
	write(t, path, `{"time":"2026-01-02T0`)
	write(t, ballast, strings.Repeat("x", 32<<10))
	f := open(t, "", func(o *access.Options) { o.AuditLog = path })
	written := 0
	record := func() {
		f.Audit()(&auth.Record{Time: time.Now(), Call: "/hindsight.v1.ModelService/SnapshotModel", Models: []string{"a-model"}, Outcome: "OK"})
		written++
	}
	for f.Stats().AuditFailures < 3 {
		record()
	}
	require.NoError(t, os.Remove(ballast))
	record()
	text := must(os.ReadFile(path))(t)
	good, bad := 0, 0
	for line := range bytes.Lines(text) {
		if json.Valid(line) {
			good++
		} else {
			bad++
		}
	}
	// The disk may be full in front of a line's end, and the line is whole nevertheless.
	assert.True(t, good >= written-3 && good <= written-2 && bad <= 2, "%d good lines of %d, and %d bad ones", good, written, bad)
}
