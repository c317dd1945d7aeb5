package store_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"hindsight/internal/engine/storage"
)

// Readers see a record before Append returns. The end of the log is then that of the record, too: a load
// of the model takes a log that differs from its end for a damaged one.
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
	if err := appendTo(1); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	appended := make(chan error, 1)
	go func() { appended <- appendTo(2) }()
	within(t, "the sync of the log", func() { <-syncing })
	check := func(when string) {
		t.Helper()
		replayed := uint64(0)
		err := m.Replay(t.Context(), 0, func(r storage.Record) error {
			replayed = r.Last
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if last, err := m.Last(); last != replayed || err != nil {
			t.Errorf("%s: the log ends at %d, %v, and is replayed to %d", when, last, err, replayed)
		}
	}
	check("in the append")
	close(resume)
	if err := <-appended; err != nil {
		t.Error(err)
	}
	check("after the append")
}
