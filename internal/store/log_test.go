package store_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
)

// Readers see a record before Append returns. The log then ends at the record, too: a load of the model
// rejects a log whose end differs from the last record as damaged.
func TestEndBesideAppend(t *testing.T) {
	var armed atomic.Bool
	syncing, resume := make(chan struct{}), make(chan struct{})
	s := open(t, inject(vfs.NewCrashableMem(), func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && syncs(op) && armed.CompareAndSwap(true, false) {
			close(syncing)
			<-resume
		}
		return nil
	}))
	defer closed(t, s)
	m := create(t, s, "m")
	appendTo := func(n uint64) error {
		return m.Append(t.Context(), storage.Commit{Record: storage.Record{First: n, Last: n, Data: []byte("r")}})
	}
	require.NoError(t, appendTo(1))
	armed.Store(true)
	appended := make(chan error, 1)
	go func() { appended <- appendTo(2) }()
	within(t, "the sync of the log", func() { <-syncing })
	replayed := func() (last uint64) {
		t.Helper()
		if err := m.Replay(t.Context(), 0, func(r storage.Record) error {
			last = r.Last
			return nil
		}); err != nil {
			t.Error(err)
		}
		return last
	}
	check := func(when string) {
		t.Helper()
		last, err := m.Last()
		assert.True(t, last == 2 && err == nil, "%s: the log ends at %d, %v, and is replayed to 2", when, last, err)
	}
	// The sync begins beside the step that makes the record visible.
	within(t, "the record is visible", func() {
		for replayed() != 2 {
			runtime.Gosched()
		}
	})
	check("in the append")
	close(resume)
	assert.NoError(t, <-appended)
	check("after the append")
}
