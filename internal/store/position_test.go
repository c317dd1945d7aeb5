package store_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
	"hindsight/internal/store/storetest"
)

func at(index uint64) storage.Position { return storage.Position{Index: index} }

// A power cut before any write to the disk leaves exactly the commands that the position covers. After the test
// applies the other commands, the store equals every replica.
func TestPositionCrashes(t *testing.T) {
	oneGoroutine(t)
	rng := seeded(t)
	outcomes := map[int]int{}
	for range times(4, 20) {
		plain := open(t, vfs.NewMem())
		script := storetest.NewScript(t, rng, plain, 40)
		closed(t, plain)
		choices := rand.New(rand.NewPCG(rng.Uint64(), 1)) // The cuts use rng.
		disk := vfs.NewCrashableMem()
		closed(t, open(t, disk, store.SmallMemTables))
		all := crashes(t, disk, rng, store.SmallMemTables, func(s *store.Store) {
			for n := range script.Len() {
				script.Apply(t, s, n, n+1)
				switch choices.IntN(8) {
				case 0:
					require.NoError(t, s.Sync(t.Context()))
				case 1, 2:
					storetest.Snapshot(t, choices, s)
				}
			}
		})
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, left := range all[:min(len(all), times(40, 100))] {
			s := open(t, left, store.SmallMemTables)
			outcomes[script.Applied(t, s)]++
			script.Apply(t, s, 0, script.Len())
			script.Complete(t, s, script.Len())
			closed(t, s)
			s = open(t, left, store.SmallMemTables)
			script.Complete(t, s, script.Len())
			closed(t, s)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	assert.GreaterOrEqual(t, len(outcomes), 10, "the cuts left %v commands", outcomes)
}

// A call under a position does not wait for the disk; one without a position does.
func TestPositionsAreNotSynced(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	m := must(s.Create(storage.At(t.Context(), at(1)), "m", nil))(t)
	before := s.LogSyncs()
	for n := uint64(1); n <= 100; n++ {
		require.NoError(t, m.Append(storage.At(t.Context(), at(1+n)), commit(n)))
	}
	assert.LessOrEqual(t, s.LogSyncs()-before, int64(0))
	appended(t, m, record(101))
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	closed(t, s)
	s = open(t, cut)
	defer closed(t, s)
	if got := len(replayed(t, find(t, s, "m"))); got != 101 || s.Position() != at(101) {
		t.Errorf("%d records, position %v", got, s.Position())
	}
}

// The position is in a checkpoint, and in what fsck reads. The directory is of a format that an older
// version rejects.
func TestPositionIsCopied(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	defer closed(t, s)
	m := must(s.Create(storage.At(t.Context(), at(7)), "m", nil))(t)
	last := storage.Position{Index: 1 << 40, Command: 3}
	require.NoError(t, m.Append(storage.At(t.Context(), last), commit(1)))
	dir := must(s.Checkpoint(t.Context()))(t)
	require.NoError(t, m.Append(storage.At(t.Context(), storage.Position{Index: 1 << 41}), commit(2)))
	inspected, pending, err := store.Inspect(dir, store.Options{FS: fs})
	require.NoError(t, errors.Join(pending, err))
	if inspected.Position() != last || len(replayed(t, find(t, inspected, "m"))) != 1 {
		t.Errorf("position %v", inspected.Position())
	}
	closed(t, inspected)
	again := must(store.Open(dir, store.Options{FS: fs}))(t)
	defer closed(t, again)
	other, err := again.Create(storage.At(t.Context(), storage.Position{Index: 1 << 41}), "other", nil)
	if err != nil || other.Number() != 2 || again.Position() != (storage.Position{Index: 1 << 41}) {
		t.Errorf("number %d, position %v, %v", other.Number(), again.Position(), err)
	}
}

func TestResetPosition(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	m, err := s.Create(storage.At(t.Context(), at(7)), "m", nil)
	require.NoError(t, errors.Join(err, s.ResetPosition()))
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	closed(t, s)
	s = open(t, cut)
	defer closed(t, s)
	if s.Position() != (storage.Position{}) || find(t, s, "m").Number() != m.Number() {
		t.Errorf("position %v", s.Position())
	}
}

// An import that the disk rejects in the middle ends all writing, because the next model would get a different number
// than on the other replicas.
func TestImportUnderAPositionFails(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var failing atomic.Bool
	s := open(t, inject(mem, func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpRename {
			return syscall.ENOSPC
		}
		return nil
	}))
	from := storage.Import{Sequence: 3, Snapshot: []byte("state"), Pending: []storage.Prediction{{ID: "p"}}, IDs: []storage.ID{{ID: "a"}}}
	failing.Store(true)
	if _, err := s.Import(storage.At(t.Context(), at(5)), "m", nil, from); !errors.Is(err, storage.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("import: %v", err)
	}
	if _, err := s.Create(storage.At(t.Context(), at(6)), "n", nil); !errors.Is(err, storage.ErrFailed) {
		t.Errorf("create: %v", err)
	}
	cut := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: seeded(t)})
	closed(t, s)
	s = open(t, cut)
	defer closed(t, s)
	m, err := s.Import(storage.At(t.Context(), at(5)), "m", nil, from)
	if err != nil || m.Number() != 1 || m.CountPending() != 1 || s.Metrics().RememberedIDs != 1 {
		t.Errorf("number %d, %d wait, %v", m.Number(), m.CountPending(), err)
	}
}

// Pending predictions may be durable before their model. The model gets the same number when its command is applied
// again. If another command creates a model under the number, that model has none of the predictions.
func TestNumbersAreGivenAgain(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	for _, name := range []string{"m", "other"} {
		m, err := s.Create(storage.At(t.Context(), at(1)), name, nil)
		if err != nil || m.Number() != 1 {
			t.Fatalf("number %d, %v", m.Number(), err)
		}
		if name == "m" {
			err = errors.Join(m.PutPending([]storage.Prediction{{ID: "p"}}), s.SyncPending())
		} else {
			err = m.WriteSnapshot(0, nil)
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{})
		closed(t, s)
		require.NoError(t, err)
		fs = cut
		s = open(t, fs)
		if name == "m" && s.Position() != (storage.Position{}) {
			t.Errorf("position %v", s.Position())
		}
	}
	defer closed(t, s)
	if m := find(t, s, "other"); m.Number() != 1 || m.CountPending() != 0 {
		t.Errorf("number %d, %d wait", m.Number(), m.CountPending())
	}
}
