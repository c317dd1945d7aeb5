package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// tamper changes the log database behind the store's back.
func tamper(t *testing.T, fs vfs.FS, change func(db *pebble.DB) error) {
	t.Helper()
	tamperIn(t, fs, "data/log", change)
}

func tamperIn(t *testing.T, fs vfs.FS, directory string, change func(db *pebble.DB) error) {
	t.Helper()
	db := must(pebble.Open(directory, &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}}))(t)
	require.NoError(t, errors.Join(change(db), db.Close()))
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// numbered is a key of a family and numbers.
func numbered(family byte, numbers ...uint64) []byte {
	k := []byte{family}
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// A bad record stops the replay, which names it; so does a missing one.
func TestDamagedRecords(t *testing.T) {
	third := numbered('l', 1, 3)
	for name, damage := range map[string]struct {
		change   func(db *pebble.DB, value []byte) error
		sequence uint64
	}{
		"a flipped bit": {func(db *pebble.DB, v []byte) error {
			v[len(v)-1] ^= 1
			return db.Set(third, v, pebble.Sync)
		}, 3},
		"cut short": {func(db *pebble.DB, v []byte) error { return db.Set(third, v[:5], pebble.Sync) }, 3},
		"another first sequence": {func(db *pebble.DB, v []byte) error {
			v[7] = 9
			return db.Set(third, v, pebble.Sync)
		}, 3},
		"moved":   {func(db *pebble.DB, v []byte) error { return db.Set(numbered('l', 1, 4), v, pebble.Sync) }, 4},
		"missing": {func(db *pebble.DB, _ []byte) error { return db.Delete(third, pebble.Sync) }, 3},
		"a long key": {func(db *pebble.DB, v []byte) error {
			return db.Set(append(bytes.Clone(third), 0), v, pebble.Sync)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, fs)
			m := create(t, s, "m")
			appended(t, m, record(1), record(2), record(3), record(4))
			closed(t, s)
			tamper(t, fs, func(db *pebble.DB) error {
				v, closer, err := db.Get(third)
				if err != nil {
					return err
				}
				v = bytes.Clone(v)
				return errors.Join(closer.Close(), damage.change(db, v))
			})
			s = open(t, fs)
			defer closed(t, s)
			var corrupt *store.CorruptError
			err := find(t, s, "m").Replay(t.Context(), 0, func(storage.Record) error { return nil })
			assert.True(t, errors.As(err, &corrupt) && corrupt.Sequence == damage.sequence && corrupt.Model == "m" && errors.Is(err, storage.ErrCorrupt), "%v, want sequence %d", err, damage.sequence)
		})
	}
}

// What a crash in the middle of DeleteModel leaves is gone when the directory
// is opened again, and not counted.
func TestLeftoversOfADeletedModel(t *testing.T) {
	oneGoroutine(t)
	fs := vfs.NewMem()
	s := open(t, fs)
	gone, stays := create(t, s, "gone"), create(t, s, "stays")
	for n := range 1000 {
		for _, m := range []storage.Model{gone, stays} {
			id := strconv.Itoa(n)
			if err := errors.Join(
				m.PutIDs(t.Context(), []storage.ID{{ID: id, At: time.Unix(int64(n), 0)}}),
				m.PutPending([]storage.Prediction{{ID: id, Expiry: time.Unix(int64(n), 0)}}),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	require.NoError(t, gone.WriteSnapshot(1, nil))
	closed(t, s)
	// As after a crash that kept an old number from the disk, too.
	tamper(t, fs, func(db *pebble.DB) error {
		return errors.Join(
			db.Delete([]byte("rgone"), pebble.Sync),
			db.Set([]byte{'n'}, numbered(0, 0)[1:], pebble.Sync),
		)
	})
	s = open(t, fs)
	assert.Equal(t, 1000, s.Metrics().RememberedIDs)
	assert.EqualValues(t, 1000, find(t, s, "stays").CountPending())
	// No number is given twice.
	again := create(t, s, "gone")
	require.NoError(t, again.WriteSnapshot(1, nil))
	for n, want := range map[string]bool{"1": false, "2": true, "3": true} {
		files, err := fs.List("data/snapshots/" + n)
		assert.Equal(t, (want && n == "3"), (err == nil && len(files) > 0), "%v %v %v", n, files, err)
	}
	for name, want := range map[string]bool{"gone": false, "stays": true} {
		_, waits, err1 := find(t, s, name).GetPending("7")
		_, seen, err2 := find(t, s, name).ID("7")
		err := errors.Join(err1, err2)
		assert.True(t, err == nil && waits == want && seen == want, "model %s: waits %v, remembered %v, %v", name, waits, seen, err)
	}
	require.NoError(t, errors.Join(find(t, s, "stays").Delete(t.Context()), again.Delete(t.Context())))
	assert.Equal(t, 0, s.Metrics().RememberedIDs)
	closed(t, s)
	assert.NoError(t, s.Close())
	tamper(t, fs, func(db *pebble.DB) error { return empty(t, db, 'a', 's', 'l', 'w', 'r') })
	tamperIn(t, fs, "data/pending", func(db *pebble.DB) error { return empty(t, db, 'p') })
}

// empty fails the test when a family has keys.
func empty(t *testing.T, db *pebble.DB, families ...byte) error {
	t.Helper()
	for _, family := range families {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{family}, UpperBound: []byte{family + 1}})
		if err != nil {
			return err
		}
		assert.False(t, it.First(), "left: %q", it.Key())
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}

// An entry of the registry that cannot be read stops neither the start nor the
// walk, and what may be its data is not cleaned up.
func TestUnreadableRegistryEntries(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	for _, name := range []string{"a", "b", "c", "d"} {
		appended(t, create(t, s, name), record(1))
	}
	require.NoError(t, find(t, s, "b").PutIDs(t.Context(), []storage.ID{{ID: "x", At: time.Unix(1, 0)}}))
	closed(t, s)
	var good []byte
	tamper(t, fs, func(db *pebble.DB) error {
		v, closer, err := db.Get([]byte("rb"))
		if err != nil {
			return err
		}
		good = bytes.Clone(v)
		return errors.Join(closer.Close(),
			db.Set([]byte("rb"), []byte("short"), pebble.Sync),
			db.Set([]byte("rd"), numbered(0, 3)[1:], pebble.Sync), // The number of c.
			db.Set(numbered('w', 1), []byte("no sequence"), pebble.Sync))
	})
	s = open(t, fs)
	got := map[string]error{}
	if err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		assert.Equal(t, (e.Err != nil), (e.Model == nil), e)
		got[e.Name] = e.Err
		return nil
	}); err != nil || len(got) != 4 || got["c"] != nil {
		t.Fatalf("models %v, %v", got, err)
	}
	for _, name := range []string{"a", "b", "d"} {
		err := got[name]
		assert.True(t, errors.Is(err, storage.ErrCorrupt) && strings.Contains(err.Error(), strconv.Quote(name)), "model %s: %v", name, err)
	}
	assert.ErrorIs(t, errOf(s.Create(t.Context(), "b", nil)), storage.ErrExists)
	closed(t, s)
	tamper(t, fs, func(db *pebble.DB) error { return db.Set([]byte("rb"), good, pebble.Sync) })
	s = open(t, fs)
	defer closed(t, s)
	_, ok, err := find(t, s, "b").ID("x")
	assert.True(t, ok && err == nil, "its id is there: %v, %v", ok, err)
}

// Rows that are too short to be taken apart stop only the calls that ask for them.
func TestUnreadableRows(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m := create(t, s, "m")
	appended(t, m, record(1), record(2))
	var ids []storage.ID
	var rows []storage.Prediction
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, storage.ID{ID: name, At: time.Unix(1, 0), Value: []byte(name)})
		rows = append(rows, storage.Prediction{ID: name, Expiry: time.Unix(1, 0)})
	}
	require.NoError(t, errors.Join(m.PutIDs(t.Context(), ids), m.PutPending(rows)))
	closed(t, s)
	tamper(t, fs, func(db *pebble.DB) error { return db.Set(append(numbered('s', 1), 'b'), []byte("short"), pebble.Sync) })
	tamperIn(t, fs, "data/pending", func(db *pebble.DB) error {
		return db.Set(append(numbered('p', 1), 'b'), []byte("short"), pebble.Sync)
	})
	s = open(t, fs)
	defer closed(t, s)
	m = find(t, s, "m")
	_, _, idErr := m.ID("b")
	_, _, waitErr := m.GetPending("b")
	for _, err := range []error{
		idErr, waitErr,
		m.EachID(t.Context(), func(storage.ID) error { return nil }),
		m.EachPending(t.Context(), func(storage.Prediction) error { return nil }),
	} {
		assert.True(t, errors.Is(err, storage.ErrCorrupt) && strings.Contains(err.Error(), `id "b"`), "got %v, want the id b to be corrupt", err)
	}
	undone := func(value []byte) bool { return string(value) == "c" }
	require.NoError(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 1, Undone: undone}))
	got := s.Metrics().RememberedIDs
	assert.True(t, got == 2 && len(replayed(t, m)) == 1, "%d ids counted, want 2", got)
	_, ok, err := m.ID("c")
	assert.True(t, !ok && err == nil, "an undone id: %v, %v", ok, err)
	// Sweeps drop them by their age.
	expired := 0
	if err := errors.Join(
		s.Forget(t.Context(), time.Unix(2, 0), 0),
		s.Expire(t.Context(), time.Unix(2, 0), func(storage.Model) { expired++ }),
	); err != nil || expired != 3 || m.CountPending() != 0 || s.Metrics().RememberedIDs != 0 {
		t.Errorf("%d expired, %d wait, %d remembered, %v", expired, m.CountPending(), s.Metrics().RememberedIDs, err)
	}
	if err := errors.Join(
		m.EachID(t.Context(), func(e storage.ID) error { return errors.New(e.ID) }),
		m.EachPending(t.Context(), func(p storage.Prediction) error { return errors.New(p.ID) }),
	); err != nil {
		t.Errorf("left: %v", err)
	}
}

// A directory that cannot be locked for another reason than another process
// is not said to be in use.
func TestLockErrors(t *testing.T) {
	mem := vfs.NewMem()
	denied := &fs.PathError{Op: "open", Path: "data/LOCK", Err: fs.ErrPermission}
	_, err := store.Open("data", store.Options{FS: noLock{mem, denied}})
	assert.True(t, errors.Is(err, fs.ErrPermission) && !errors.Is(err, store.ErrInUse), "opened with %v", err)
	s := open(t, mem)
	defer closed(t, s)
	if _, err := store.Open("data", store.Options{FS: mem}); !errors.Is(err, store.ErrInUse) ||
		!strings.HasPrefix(err.Error(), "store: data directory data is in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
}

type noLock struct {
	vfs.FS
	err error
}

func (f noLock) Lock(string) (io.Closer, error) { return nil, f.err }

// A call of Last that began before an Append and ended after it does not put
// the old end in place of the new one, so that the next Append is not rejected.
// Deleted keys behind the log's end make reading the end slow.
func TestLastBesideAppend(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	appended(t, create(t, s, "m"), record(1))
	closed(t, s)
	const deleted = 50_000
	tamper(t, fs, func(db *pebble.DB) error {
		for _, change := range []func(*pebble.Batch, []byte) error{
			func(b *pebble.Batch, k []byte) error { return b.Set(k, nil, nil) },
			func(b *pebble.Batch, k []byte) error { return b.Delete(k, nil) },
		} {
			b := db.NewBatch()
			for n := range uint64(deleted) {
				if err := change(b, numbered('l', 1, 1_000_000+n)); err != nil {
					return err
				}
			}
			if err := errors.Join(b.Commit(pebble.Sync), db.Flush()); err != nil {
				return err
			}
		}
		return nil
	})
	for next := uint64(2); next < 12; next += 2 {
		s := open(t, fs) // No end is known.
		m := find(t, s, "m")
		var group, begun sync.WaitGroup
		for range 16 {
			begun.Add(1)
			group.Go(func() {
				begun.Done()
				last, err := m.Last()
				assert.True(t, err == nil && (last == next-1 || last == next), "the log ends at %d, %v", last, err)
			})
		}
		begun.Wait()
		assert.NoError(t, m.Append(t.Context(), commit(next)))
		group.Wait()
		assert.NoError(t, m.Append(t.Context(), commit(next+1)))
		closed(t, s)
	}
}

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

// newestLog is the path and the content of the newest write-ahead log of the log database.
func newestLog(t *testing.T, fs vfs.FS) (path string, data []byte) {
	t.Helper()
	names := must(fs.List("data/log"))(t)
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			path = "data/log/" + name
		}
	}
	return path, contentOf(t, fs, path)
}

func contentOf(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f := must(fs.Open(path))(t)
	data, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return data
}

func rewrite(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

// A process is killed or ends, and the newest write-ahead log is damaged anywhere: a bit
// flips, the file is cut or gone. The directory does not open with less than what was
// acknowledged, unless the damage is cut off on purpose.
func TestDamagedTailIsNoTornWrite(t *testing.T) {
	oneGoroutine(t)
	rng := seeded(t)
	for name, async := range map[string]bool{"sync": false, "async": true} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			s := open(t, fs, func(o *store.Options) { o.Async = async })
			m := create(t, s, "m")
			const records = 40
			for n := range uint64(records) {
				r := record(n + 1)
				r.Data = make([]byte, rng.IntN(4000))
				appended(t, m, r)
			}
			require.NoError(t, s.Sync(t.Context()))
			killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
			closed(t, s)
			for name, left := range map[string]*vfs.MemFS{"killed": killed, "closed": fs} {
				damageTail(t, rng, name, left, records)
			}
		})
	}
}

func damageTail(t *testing.T, rng *rand.Rand, name string, left *vfs.MemFS, records int) {
	t.Helper()
	cuts := times(20, 60)
	rejected := 0
	for n := range cuts {
		fs := left.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		path, data := newestLog(t, fs)
		at := rng.IntN(len(data))
		if n%2 == 0 {
			at = len(data) - 1 - rng.IntN(200) // Pebble takes damage near the end for a torn write.
		}
		switch {
		case n == 0:
			require.NoError(t, fs.Remove(path))
		case n%5 == 0:
			rewrite(t, fs, path, data[:at])
		default:
			data[at] ^= 1 << rng.IntN(8)
			rewrite(t, fs, path, data)
		}
		s, err := store.Open("data", store.Options{FS: fs})
		if err == nil {
			require.Equal(t, records, len(replayed(t, find(t, s, "m"))), "%v %v %v", name, at, len(data))
			closed(t, s)
			continue
		}
		rejected++
		var tail *store.TailError
		if !errors.As(err, &tail) || !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s: damage at byte %d of %d: %v, want a TailError that names %s", name, at, len(data), err, path)
		}
		_, _, err = store.Inspect("data", store.Options{FS: fs})
		require.True(t, errors.As(err, &tail), "%s: inspected with %v, want a TailError", name, err)
		require.NoError(t, store.CutTail("data", store.Options{FS: fs}))
		s = open(t, fs)
		closed(t, s)
		closed(t, open(t, fs))
	}
	assert.GreaterOrEqual(t, rejected, cuts/2, "%s: only %d of %d damaged logs are rejected", name, rejected, cuts)
	t.Logf("%s: %d of %d damaged logs are rejected, the others lose nothing", name, rejected, cuts)
}
