package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// round is what the engine does of one observation: the prediction waits, its label
// is learned, and it waits no more. A snapshot comes when all of that is written; it
// makes the one before, and the log behind it, unnecessary.
func round(ctx context.Context, s *store.Store, m storage.Model, n uint64) error {
	id := strconv.FormatUint(n, 10)
	err := errors.Join(
		m.PutPending([]storage.Prediction{{ID: id, Value: []byte(id), Expiry: time.Unix(1<<33, 0), Minted: true}}),
		m.Append(ctx, commit(n, storage.ID{ID: id, At: time.Unix(1, 0), Value: []byte(id)})),
		m.RemovePending([]string{id}),
	)
	if err != nil || n%3 != 0 {
		return err
	}
	if err := errors.Join(s.Sync(ctx), m.WriteSnapshot(n, []byte(id))); err != nil {
		return err
	}
	if n > 3 {
		err = m.RemoveSnapshot(n - 3)
	}
	return errors.Join(err, m.Truncate(n))
}

// While a model learns, checkpoints hold all that was acknowledged before them, and
// their parts fit: the log reaches back to the snapshot and beyond it, and a
// prediction waits or is answered.
func TestCheckpointUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := must(store.Open(dir, store.Options{}))(t)
	m := create(t, s, "m")
	var acknowledged atomic.Uint64
	var writer sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	writer.Go(func() {
		for n := uint64(1); ctx.Err() == nil; n++ {
			if err := round(context.WithoutCancel(ctx), s, m, n); err != nil {
				t.Error(err)
				return
			}
			acknowledged.Store(n)
		}
	})
	for range times(5, 25) {
		before := acknowledged.Load()
		at := must(s.Checkpoint(t.Context()))(t)
		wantCheckpoint(t, at, before)
	}
	stop()
	writer.Wait()
	assert.NoError(t, s.RemoveCheckpoint())
	left, err := filepath.Glob(filepath.Join(dir, "checkpoint*"))
	assert.True(t, err == nil && len(left) == 0, "left %v, %v", left, err)
	closed(t, s)
	t.Logf("%d observations", acknowledged.Load())
}

// wantCheckpoint checks a checkpoint that was asked for after an observation was
// acknowledged.
func wantCheckpoint(t *testing.T, at string, acknowledged uint64) {
	t.Helper()
	s, waiting, err := store.Inspect(at, store.Options{})
	require.True(t, err == nil && waiting == nil, "after %d: %v, %v", acknowledged, err, waiting)
	defer closed(t, s)
	m := find(t, s, "m")
	last, err1 := m.Last()
	kept, err2 := m.Snapshots()
	err = errors.Join(err1, err2)
	require.True(t, err == nil && last >= acknowledged, "the log ends at %d, acknowledged were %d; %v", last, acknowledged, err)
	oldest, newest := uint64(0), uint64(0)
	if len(kept) > 0 {
		oldest, newest = kept[len(kept)-1], kept[0]
	}
	next := oldest + 1
	err = m.Replay(t.Context(), oldest, func(r storage.Record) error { next = r.Last + 1; return nil })
	assert.True(t, err == nil && next == last+1 && newest <= last, "snapshots %v, log up to %d, replayed up to %d, %v", kept, last, next-1, err)
	found := 0
	err = m.EachPending(t.Context(), func(p storage.Prediction) error {
		n, err := strconv.ParseUint(p.ID, 10, 64)
		// The prediction of the moment, or one whose record is replayed.
		assert.True(t, n <= last+1 && n > newest, "prediction %d waits at %d, behind the snapshot %d", n, last, newest)
		found++
		return err
	})
	assert.True(t, err == nil && found <= 4, "%d predictions wait, %v", found, err)
	s.Verify(func(problem error) { t.Error(problem) }, nil)
}

// A checkpoint that cannot be written harms nothing else.
func TestCheckpointOnFullDisk(t *testing.T) {
	for _, fails := range []string{"checkpoint/log", "checkpoint/pending", "checkpoint/snapshots", "checkpoint/LOCK"} {
		disk := vfs.NewCrashableMem()
		var full atomic.Bool
		s := open(t, inject(disk, func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, fails) && op.Kind != errorfs.OpRemoveAll {
				return syscall.ENOSPC
			}
			return nil
		}))
		m := create(t, s, "m")
		for n := uint64(1); n <= 7; n++ {
			require.NoError(t, round(t.Context(), s, m, n))
		}
		full.Store(true)
		at, err := s.Checkpoint(t.Context())
		assert.ErrorIs(t, err, syscall.ENOSPC, "%v %v", fails, at)
		full.Store(false)
		assert.NoError(t, errors.Join(s.Failed(), round(t.Context(), s, m, 8)), fails)
		at, err = s.Checkpoint(t.Context())
		assert.True(t, err == nil && at != "", "%s: %q, %v", fails, at, err)
		closed(t, s)
	}
}

// A store that takes no more writes gives no checkpoint: what is in memory alone
// would be missing.
func TestCheckpointAfterRejectedWrite(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var full atomic.Bool
	s := open(t, inject(disk, func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.EIO
		}
		return nil
	}))
	m := create(t, s, "m")
	full.Store(true)
	require.Error(t, m.Append(t.Context(), commit(1)), "appended")
	full.Store(false)
	_, err := s.Checkpoint(t.Context())
	assert.ErrorIs(t, err, storage.ErrFailed)
	closed(t, s)
}

// What a checkpoint of before left is removed by the next start, and a directory that
// is being restored is opened by who restores it alone.
func TestOpenRemovesCheckpointAndRejectsHalfRestored(t *testing.T) {
	dir := t.TempDir()
	s := must(store.Open(dir, store.Options{}))(t)
	at, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	closed(t, s)
	s, err = store.Open(dir, store.Options{})
	require.NoError(t, err)
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", at, err)
	}
	closed(t, s)
	require.NoError(t, os.WriteFile(filepath.Join(dir, store.RestoringMark), nil, 0o600))
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrRestoring) {
		t.Error(err)
	}
	if _, _, err := store.Inspect(dir, store.Options{}); !errors.Is(err, store.ErrRestoring) {
		t.Error(err)
	}
	if s, err = store.Open(dir, store.Options{Restoring: true}); err != nil {
		t.Fatal(fmt.Errorf("restoring: %w", err))
	}
	closed(t, s)
}
