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
	"hindsight/internal/store"
)

func TestMetricsOfTheDisk(t *testing.T) {
	var synced atomic.Int64
	s, err := store.Open(t.TempDir(), store.Options{Synced: func(seconds float64) {
		assert.GreaterOrEqual(t, seconds, 0.0, "a sync of %v s", seconds)
		synced.Add(1)
	}})
	require.NoError(t, err)
	defer closed(t, s)
	appended(t, create(t, s, "m"), record(1), record(2))
	m := s.Metrics()
	if m.Fsyncs < 2 || synced.Load() < 2 {
		t.Errorf("%d syncs, %d were told", m.Fsyncs, synced.Load())
	}
	assert.True(t, m.FreeBytes > 0 && m.SizeBytes >= m.FreeBytes && m.DiskBytes != 0 && m.Stalls == 0 && m.StallSeconds == 0, "metrics %+v", m)
}

// A write that waits until a flush makes room is counted, with its time.
func TestStallsAreCounted(t *testing.T) {
	flush := make(chan struct{})
	fs := inject(vfs.NewMem(), func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-flush
		}
		return nil
	})
	s := open(t, fs, store.SmallMemTables)
	m := create(t, s, "m")
	done := make(chan error, 1)
	go func() {
		for n := uint64(1); n <= 100; n++ {
			r := storage.Record{First: n, Last: n, Data: make([]byte, 32<<10)}
			if err := m.Append(t.Context(), storage.Commit{Record: r}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for s.Metrics().Stalls == 0 {
		runtime.Gosched()
	}
	close(flush)
	require.NoError(t, <-done)
	got := s.Metrics()
	assert.Greater(t, got.StallSeconds, 0.0, "metrics %+v", got)
	closed(t, s)
}
