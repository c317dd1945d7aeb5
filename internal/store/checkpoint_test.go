package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
		disk, full := failing(vfs.NewCrashableMem(), syscall.ENOSPC, func(op errorfs.Op) bool {
			return op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, fails) && op.Kind != errorfs.OpRemoveAll
		})
		s := open(t, disk)
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
	disk, full := failing(vfs.NewCrashableMem(), syscall.EIO, func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite })
	s := open(t, disk)
	m := create(t, s, "m")
	full.Store(true)
	require.Error(t, m.Append(t.Context(), commit(1)), "appended")
	full.Store(false)
	assert.ErrorIs(t, errOf(s.Checkpoint(t.Context())), storage.ErrFailed)
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

func member(o *store.Options) {
	store.SmallMemTables(o)
	o.Member = true
}

// send sends a checkpoint of a store to another. Complete ends it, unless base is 0.
func send(t *testing.T, from, to *store.Store, base uint64) {
	t.Helper()
	dir := must(from.Checkpoint(t.Context()))(t)
	in, err := to.Receive()
	require.NoError(t, err)
	err = from.EachFile(t.Context(), dir, func(name string, r io.Reader) error {
		if err := in.Create(name); err != nil {
			return err
		}
		digest := sha256.New()
		if _, err := io.Copy(io.MultiWriter(in, digest), r); err != nil {
			return err
		}
		return in.End(digest.Sum(nil))
	})
	if err == nil && base > 0 {
		err = in.Complete(base)
	}
	require.NoError(t, errors.Join(err, in.Close()))
}

// sender is a store with a model, a snapshot, a pending prediction and a position.
func sender(t *testing.T) *store.Store {
	t.Helper()
	s := open(t, vfs.NewMem(), store.SmallMemTables)
	t.Cleanup(func() { closed(t, s) })
	ctx := storage.At(t.Context(), storage.Position{Index: 7})
	m := must(s.Create(ctx, "sent", []byte("value")))(t)
	for n := range uint64(3) {
		require.NoError(t, m.Append(storage.At(t.Context(), storage.Position{Index: 8 + n}), commit(n+1)))
	}
	require.NoError(t, errors.Join(m.WriteSnapshot(2, []byte("state")), m.PutPending([]storage.Prediction{{ID: "p", Value: []byte("row")}})))
	return s
}

// checkSent fails the test unless a store has exactly the contents of sender.
func checkSent(t *testing.T, s *store.Store) {
	t.Helper()
	m := find(t, s, "sent")
	state, err := m.ReadSnapshot(2)
	assert.True(t, err == nil && string(state) == "state", "snapshot %q, %v", state, err)
	if n := len(replayed(t, m)); n != 3 || s.CountPending() != 1 {
		t.Errorf("%d records, %d predictions", n, s.CountPending())
	}
	p := s.Position()
	assert.True(t, p == (storage.Position{Index: 10}), "position %v", p)
	base, err := s.Base()
	assert.True(t, err == nil && base == 12, "base %d, %v", base, err)
	models := 0
	err = s.Models(t.Context(), func(storage.RegistryEntry) error { models++; return nil })
	assert.True(t, err == nil && models == 1, "%d models, %v", models, err)
}

// receiver is the disk of a member with another model.
func receiver(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s := open(t, disk, member)
	must(s.Member())(t)
	m := create(t, s, "old")
	appended(t, m, record(1))
	require.NoError(t, m.WriteSnapshot(1, []byte("old state")))
	closed(t, s)
	return disk
}

func TestAReceivedCheckpointReplacesTheStore(t *testing.T) {
	from := sender(t)
	disk := receiver(t)
	s := open(t, disk, member)
	id := must(s.Member())(t)
	send(t, from, s, 12)
	find(t, s, "old") // Until the store is opened again.
	closed(t, s)

	s = open(t, disk, member)
	checkSent(t, s)
	again, err := s.Member()
	assert.True(t, err == nil && again == id, "member %s, %v, want %s", again, err, id)
	closed(t, s)
	s = open(t, disk, member)
	checkSent(t, s)
	closed(t, s)
	assert.ErrorIs(t, errOf(store.Open("data", store.Options{FS: disk})), store.ErrMember)
}

func TestAnIncompleteCheckpointIsRemoved(t *testing.T) {
	from := sender(t)
	disk := receiver(t)
	s := open(t, disk, member)
	send(t, from, s, 0)
	closed(t, s)
	s = open(t, disk, member)
	find(t, s, "old")
	closed(t, s)
	assert.Error(t, errOf(disk.Stat("data/groups/0/incoming")), "the checkpoint is still there")
}

// A power cut at any write, while a checkpoint arrives or while it replaces the store, leaves the old store or the
// checkpoint.
func TestReceivedCheckpointAndPowerCuts(t *testing.T) {
	oneGoroutine(t)
	from := sender(t)
	disk := receiver(t)
	completed := false
	for _, left := range crashes(t, disk, seeded(t), member, func(s *store.Store) { send(t, from, s, 12) }) {
		s := open(t, left, member)
		if base, err := s.Base(); err != nil {
			t.Error(err)
		} else if base == 0 {
			find(t, s, "old")
		} else {
			completed = true
			checkSent(t, s)
		}
		closed(t, s)
	}
	assert.True(t, completed, "no power cut came after the end")
	var cuts []*vfs.MemFS
	s := open(t, inject(disk, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && !strings.HasPrefix(op.Path, "data/log/") && !strings.HasPrefix(op.Path, "data/pending/") {
			cuts = append(cuts, disk.CrashClone(vfs.CrashCloneCfg{}), disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: seeded(t)}))
		}
		return nil
	}), member)
	checkSent(t, s)
	closed(t, s)
	swapping := 0
	for _, left := range cuts {
		// An inspection sees the whole checkpoint, or fails with the reason.
		switch s, pending, err := store.Inspect("data", store.Options{FS: left}); {
		case errors.Is(err, store.ErrSwapping):
			swapping++
		case err != nil || pending != nil:
			t.Error(err, pending)
		default:
			checkSent(t, s)
			closed(t, s)
		}
		s := open(t, left, member)
		checkSent(t, s)
		closed(t, s)
	}
	assert.NotEqual(t, 0, swapping, "no inspection came before the end of the swap")
	t.Logf("%d power cuts, %d before the end of the swap", len(cuts), swapping)
}

func TestIncomingRejects(t *testing.T) {
	s := open(t, vfs.NewMem(), member)
	defer closed(t, s)
	in := must(s.Receive())(t)
	for _, name := range []string{"", "log", "LOCK", "log/../../LOCK", "/log/x", "other/x", "log//x"} {
		assert.Error(t, in.Create(name), name)
	}
	assert.Error(t, errOf(in.Write(nil)), "wrote no file")
	require.NoError(t, in.Create("log/1"))
	assert.True(t, in.Create("log/2") != nil && in.Complete(1) != nil, "went on within a file")
	assert.Error(t, in.End([]byte("other")), "took other bytes")
}
