package store_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

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
	_, err = store.Open("data", store.Options{FS: disk})
	assert.ErrorIs(t, err, store.ErrMember)
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
	_, err := disk.Stat("data/groups/0/incoming")
	assert.Error(t, err, "the checkpoint is still there")
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
	_, err := in.Write(nil)
	assert.Error(t, err, "wrote no file")
	require.NoError(t, in.Create("log/1"))
	assert.True(t, in.Create("log/2") != nil && in.Complete(1) != nil, "went on within a file")
	assert.Error(t, in.End([]byte("other")), "took other bytes")
}
