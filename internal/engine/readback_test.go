package engine_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// forgetful is a learner that cannot read what it writes while broken is set.
type forgetful struct {
	model.Learner
	broken *atomic.Bool
}

func (l forgetful) Restore(state []byte) error {
	if l.broken.Load() {
		return model.ErrCorruptState
	}
	return l.Learner.Restore(state)
}

// log returns where the log of model m begins, and the sequences of its snapshots, the newest first.
func (h *host) log(t *testing.T) (first uint64, snapshots []uint64) {
	t.Helper()
	err := h.store.Models(t.Context(), func(e storage.RegistryEntry) (err error) {
		if first, err = e.Model.First(); err == nil {
			snapshots, err = e.Model.Snapshots()
		}
		return err
	})
	require.NoError(t, err)
	return first, snapshots
}

// A learner whose snapshots cannot be read costs time, not data: the log is not cut before a snapshot was read back, and
// the model is recovered from the log's beginning.
func TestUnreadableSnapshotCutsNoLog(t *testing.T) {
	var broken atomic.Bool
	learners := func(s model.Spec) (model.Learner, error) {
		l, err := catalog.New(s)
		return forgetful{l, &broken}, err
	}
	c, fs := newClock(), newFS()
	h := start(t, withLearners{files{fs}, learners}, c)
	h.create(t, "m", linear(2))
	broken.Store(true)
	learned := 0
	// snapshot learns, and reports whether a snapshot was rejected.
	snapshot := func() (rejected bool) {
		t.Helper()
		feed(t, h, learned, learned+10)
		learned += 10
		_, err := h.SnapshotModel(t.Context(), "m")
		assert.False(t, errors.Is(err, engine.ErrCorrupt), "a snapshot at %d: %v", learned, err)
		return err != nil
	}
	for n := range 5 {
		// The log is whole without a check until three snapshots are kept.
		got, want := snapshot(), n >= 2
		assert.Equal(t, want, got, "snapshot %d: rejected", n+1)
	}
	if first, kept := h.log(t); first != 1 || !slices.Equal(kept, []uint64{20, 10}) {
		t.Errorf("the log begins at %d, snapshots at %v", first, kept)
	}
	_, err := h.ModelStats(t.Context(), "m", engine.StatsOptions{})
	assert.True(t, err != nil && !errors.Is(err, engine.ErrCorrupt), "statistics: %v", err)
	want := h.predict(t, "m", 1, 2)
	// A crash, whose last snapshots are missing too.
	fs = fs.CrashClone(vfs.CrashCloneCfg{})
	logs, lines := logging()
	h = start(t, withLearners{files{fs}, learners}, c, logs)
	got := h.predict(t, "m", 1, 2)
	assert.True(t, got.Sequence == uint64(learned) && slices.Equal(got.Values, want.Values), "recovered from the log: %+v, want %+v", got, want)
	assert.Equal(t, 2, badSnapshots(lines))
	// Once snapshots can be read, the log is cut again.
	broken.Store(false)
	for n := range 3 {
		assert.False(t, snapshot(), "snapshot %d is rejected", n+1)
	}
	if first, kept := h.log(t); first == 1 || len(kept) != 3 {
		t.Errorf("the log begins at %d, snapshots at %v", first, kept)
	}
	// One snapshot in eight is read back: the first of the three was. It stays, with the log behind it.
	_, kept := h.log(t)
	checked := kept[2]
	broken.Store(true)
	for n := range 10 {
		got, want := snapshot(), n >= 5
		assert.Equal(t, want, got, "snapshot %d after the one that was read back: rejected", n+1)
	}
	first, kept := h.log(t)
	assert.True(t, first <= checked+1 && slices.Contains(kept, checked) && len(kept) == 3, "the log begins at %d, snapshots at %v, the one at %d was read back", first, kept, checked)
	broken.Store(false)
	stats := h.stats(t, "m")
	h.stop(t)
	compare(t, startOn(t, fs, c), stats)
}

// A snapshot that the disk damages after the write is found before the log is cut.
func TestDamagedSnapshotCutsNoLog(t *testing.T) {
	c, fs := newClock(), newFS()
	h, f := startFaulty(t, files{fs}, c)
	h.create(t, "m", linear(2))
	for n := range 6 {
		f.damages.Store(n >= 2)
		feed(t, h, 10*n, 10*n+10)
		_, err := h.SnapshotModel(t.Context(), "m")
		assert.True(t, (err != nil) == (n >= 2) && !errors.Is(err, engine.ErrCorrupt), "snapshot %d: %v", n+1, err)
	}
	first, kept := h.log(t)
	assert.True(t, first == 1 && slices.Equal(kept, []uint64{20, 10}), "the log begins at %d, snapshots at %v", first, kept)
	stats := h.stats(t, "m")
	compare(t, startOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), c), stats)
	f.damages.Store(false)
}
