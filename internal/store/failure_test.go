package store_test

import (
	"errors"
	"fmt"
	"runtime"
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

func syncs(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

func creates(op errorfs.Op) bool {
	return op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite
}

// faulty injects errors into a file system. The package errorfs alone gives a log that is
// used again without a wrapper, and no error would reach its writes and syncs;
// here the log is begun anew.
type faulty struct{ *errorfs.FS }

func inject(fs vfs.FS, f func(errorfs.Op) error) faulty {
	return faulty{errorfs.Wrap(fs, errorfs.InjectorFunc(f))}
}

// failing is a file system whose calls that rejects takes fail while fails is true.
func failing(fs vfs.FS, with error, rejects func(errorfs.Op) bool) (disk vfs.FS, fails *atomic.Bool) {
	fails = new(atomic.Bool)
	return inject(fs, func(op errorfs.Op) error {
		if fails.Load() && rejects(op) {
			return with
		}
		return nil
	}), fails
}

func (f faulty) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldName); err != nil {
		return nil, err
	}
	return f.Create(newName, category)
}

// within fails the test when f takes suspiciously long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// The disk rejects any write, and all writes after it: every call ends, nothing is
// acknowledged that is not there after a power cut, the process lives, and
// Close ends.
func TestRejectedWrites(t *testing.T) {
	log := func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }
	for _, c := range []struct {
		name    string
		size    int
		rejects func(errorfs.Op) bool
	}{
		{"log sync", 2_000, func(op errorfs.Op) bool { return log(op) && syncs(op) }},
		{"log write", 2_000, func(op errorfs.Op) bool { return log(op) && op.Kind == errorfs.OpFileWrite }},
		{"log begin", 8_000, func(op errorfs.Op) bool { return log(op) && creates(op) }},
		{"table begin", 8_000, func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") && creates(op) }},
		{"table write", 8_000, func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpFileWrite
		}},
		{"manifest", 8_000, func(op errorfs.Op) bool {
			return strings.Contains(op.Path, "MANIFEST") && op.Kind == errorfs.OpFileWrite
		}},
		{"directory", 8_000, func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, "/log") && syncs(op) }},
		{"all writes", 8_000, func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 {
				reject(t, c.size, c.rejects)
			}
		})
	}
}

func reject(t *testing.T, size int, rejects func(errorfs.Op) bool) {
	t.Helper()
	const writers = 16
	mem := vfs.NewCrashableMem()
	disk, fails := failing(mem, syscall.EIO, rejects)
	s := open(t, disk, store.SmallMemTables)
	var group sync.WaitGroup
	var acknowledged [writers]atomic.Uint64
	data := make([]byte, size)
	for n := range writers {
		m := create(t, s, strconv.Itoa(n))
		group.Go(func() {
			for k := uint64(1); ; k++ {
				if err := m.Append(t.Context(), storage.Commit{Record: storage.Record{First: k, Last: k, Data: data}}); err != nil {
					assert.ErrorIs(t, err, storage.ErrFailed)
					return
				}
				acknowledged[n].Store(k)
			}
		})
	}
	for n := range writers {
		for acknowledged[n].Load() == 0 {
			runtime.Gosched()
		}
	}
	fails.Store(true)
	within(t, "appending", group.Wait)
	within(t, "reading the figures", func() { s.Metrics() })
	err := s.Failed()
	assert.True(t, errors.Is(err, storage.ErrFailed) && errors.Is(err, syscall.EIO), "failed with %v", err)
	cut := mem.CrashClone(vfs.CrashCloneCfg{})
	there := func(when string) {
		t.Helper()
		for n := range writers {
			m := find(t, s, strconv.Itoa(n))
			got := replayed(t, m)
			assert.GreaterOrEqual(t, uint64(len(got)), acknowledged[n].Load(), "%v %v %v", when, n, len(got))
		}
	}
	within(t, "reading", func() { there("after the failure") })
	within(t, "closing", func() { closed(t, s) })
	s = open(t, cut)
	there("opened again")
	closed(t, s)
}

// A disk that fails at any step of Open: it says so and ends, and what was
// there is there afterwards.
func TestRejectedWhileOpening(t *testing.T) {
	oneGoroutine(t)
	mem := vfs.NewCrashableMem()
	s := open(t, mem)
	m := create(t, s, "m")
	appended(t, m, record(1), record(2))
	disk := func() *vfs.MemFS { return mem.CrashClone(vfs.CrashCloneCfg{}) }
	steps := func(fs vfs.FS, n int64) (*store.Store, int64, error) {
		var step atomic.Int64
		s, err := store.Open("data", store.Options{FS: inject(fs, func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose && step.Add(1) >= n {
				return syscall.ENOSPC
			}
			return nil
		})})
		return s, step.Load(), err
	}
	whole, all, err := steps(disk(), 1<<40)
	require.NoError(t, err)
	closed(t, whole)
	for n := int64(1); n <= all; n++ {
		fs := disk()
		within(t, fmt.Sprintf("opening with step %d rejected", n), func() {
			s, _, err := steps(fs, n)
			if err == nil {
				// The last steps are in the background.
				err := s.Close()
				assert.True(t, err == nil || errors.Is(err, syscall.ENOSPC), "step %d: %v", n, err)
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("step %d: %v", n, err)
			}
		})
		again := open(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		assert.Len(t, replayed(t, find(t, again, "m")), 2, n)
		closed(t, again)
	}
	closed(t, s)
	t.Logf("%d steps", all)
}

// A full disk still makes files, whose bytes it rejects. Open tells of the disk, and not of
// the empty files, which look like damage.
func TestFullWhileOpening(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := open(t, mem)
	m := create(t, s, "m")
	appended(t, m, record(1), record(2))
	disk := mem.CrashClone(vfs.CrashCloneCfg{})
	closed(t, s)
	_, err := store.Open("data", store.Options{FS: inject(disk, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})})
	assert.True(t, errors.Is(err, syscall.ENOSPC) && !strings.Contains(fmt.Sprint(err), "table"), "Open: %v, want that the disk is full alone", err)
	again := open(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	assert.Len(t, replayed(t, find(t, again, "m")), 2)
	closed(t, again)
}

// Power cuts while syncs are left out: the end may be gone, but the directory
// opens, nothing is in between, and what Sync covered is there.
func TestPowerCutsWithoutSyncs(t *testing.T) {
	oneGoroutine(t)
	rng := seeded(t)
	cuts := times(10, 100)
	async := func(o *store.Options) { o.Async = true }
	kinds := []func(*store.Options){store.SmallMemTables, func(*store.Options) {}}
	for range cuts {
		fs := vfs.NewCrashableMem()
		s := open(t, fs, async, kinds[rng.IntN(2)])
		m := create(t, s, "m")
		records, covered, size := 1+rng.IntN(200), 0, rng.IntN(3000)
		for k := 1; k <= records; k++ {
			id, value := strconv.Itoa(k), make([]byte, size)
			if err := errors.Join(
				m.Append(t.Context(), storage.Commit{
					Record: storage.Record{First: uint64(k), Last: uint64(k), Data: value},
					IDs:    []storage.ID{{ID: "with-" + id, At: time.Unix(int64(k), 0)}},
				}),
				m.PutPending([]storage.Prediction{{ID: id, Value: value, Expiry: time.Unix(int64(k), 0), Minted: k%2 == 0}}),
				m.PutIDs(t.Context(), []storage.ID{{ID: id, At: time.Unix(int64(k), 0)}}),
			); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(100) == 0 {
				require.NoError(t, s.Sync(t.Context()))
				covered = k
			}
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		closed(t, s)

		// The marker holds across the kinds of durability.
		s = open(t, cut, func(o *store.Options) { o.Async = rng.IntN(2) == 0 })
		m = find(t, s, "m")
		got := len(replayed(t, m))
		require.True(t, got >= covered && got <= records, "%d records of %d, Sync covered %d", got, records, covered)
		for k := 1; k <= covered; k++ {
			_, waits, err1 := m.GetPending(strconv.Itoa(k))
			_, seen, err2 := m.ID(strconv.Itoa(k))
			_, with, err3 := m.ID("with-" + strconv.Itoa(k))
			err := errors.Join(err1, err2, err3)
			require.True(t, err == nil && waits && seen && with, "%d of %d that Sync covered: waits %v, remembered %v and %v, %v", k, covered, waits, seen, with, err)
		}
		closed(t, s)
		require.Error(t, errOf(cut.Stat("data/pending.damaged-1")), "the predictions were put aside")
		s = open(t, cut)
		closed(t, s)
		require.Error(t, errOf(cut.Stat("data/log.async")), "the marker stays")
	}
}

// Every acknowledged id is found while the filter is renewed again and again, and after a start.
// Few ids that are new need a look-up.
func TestFilterHasEveryID(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, store.SmallFilter)
	const models = 4
	rounds := 600
	if testing.Short() {
		rounds = 150
	}
	id := func(model, round int) string { return fmt.Sprintf("%d of %d", round, model) }
	var writers, sweeper sync.WaitGroup
	var ended atomic.Bool
	errs := make([]error, models+1)
	sweeper.Go(func() {
		for !ended.Load() {
			errs[models] = errors.Join(errs[models], s.Forget(t.Context(), time.Unix(0, 0), 0), s.Expire(t.Context(), time.Unix(0, 0), func(storage.Model) {}))
		}
	})
	for n := range models {
		m := must(s.Create(t.Context(), strconv.Itoa(n), nil))(t)
		writers.Go(func() {
			for round := range rounds {
				ids := []storage.ID{{ID: id(n, round), At: time.Unix(1, int64(round)), Value: []byte{1}}}
				waiting := []storage.Prediction{{ID: id(n, round), Expiry: time.Unix(1, 0), Minted: round%3 == 0}}
				err := errors.Join(m.PutIDs(t.Context(), ids), m.PutPending(waiting), m.PutPending([]storage.Prediction{{ID: id(n, round), Expiry: time.Unix(2, 0)}}))
				if round%2 == 0 {
					at := uint64(round/2 + 1)
					ids[0].ID += " in the log"
					err = errors.Join(err, m.Append(t.Context(), storage.Commit{Record: storage.Record{First: at, Last: at, Data: []byte{1}}, IDs: ids}))
				}
				for earlier := round; earlier >= 0 && earlier > round-40; earlier-- {
					_, ok, failed := m.ID(id(n, earlier))
					p, waits, unread := m.GetPending(id(n, earlier))
					if failed = errors.Join(failed, unread); !ok || !waits || p.Expiry != time.Unix(2, 0) {
						failed = errors.Join(failed, fmt.Errorf("id %d of model %d is forgotten at round %d", earlier, n, round))
					}
					err = errors.Join(err, failed)
				}
				if err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	writers.Wait()
	ended.Store(true)
	sweeper.Wait()
	require.NoError(t, errors.Join(errs...))
	check := func(s *store.Store) {
		t.Helper()
		wrong := 0
		err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
			n := int(e.Name[0] - '0')
			m, ok := e.Model.(*store.Model)
			if !ok {
				return e.Err
			}
			for round := range rounds {
				_, ok, err := m.ID(id(n, round))
				_, waits, unread := m.GetPending(id(n, round))
				err = errors.Join(err, unread)
				require.True(t, err == nil && ok && waits, "id %d of model %d: %v, waits %v, %v", round, n, ok, waits, err)
				if m.MayRemember(id(n+models, round)) {
					wrong++
				}
			}
			assert.EqualValues(t, rounds, m.CountPending())
			return nil
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, wrong, models*rounds/20, "the filter lets %d of %d new ids through", wrong, models*rounds)
	}
	require.NoError(t, s.Forget(t.Context(), time.Unix(0, 0), 0))
	check(s)
	closed(t, s)
	s = open(t, fs, store.SmallFilter)
	check(s)
	closed(t, s)
}
