package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
	"hindsight/internal/store/storetest"
)

// childDirectory makes the test binary the victim of TestKill.
const (
	childDirectory = "HINDSIGHT_STORE_TEST_CHILD"
	childAsync     = "HINDSIGHT_STORE_TEST_ASYNC"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, fs vfs.FS, set ...func(*store.Options)) *store.Store {
	t.Helper()
	o := store.Options{FS: fs}
	for _, f := range set {
		f(&o)
	}
	return must(store.Open("data", o))(t)
}

func closed(t *testing.T, s *store.Store) {
	t.Helper()
	assert.NoError(t, s.Close())
}

func create(t *testing.T, s *store.Store, name string) storage.Model {
	t.Helper()
	return must(s.Create(t.Context(), name, []byte(name)))(t)
}

// find is a model that is registered.
func find(t *testing.T, s *store.Store, name string) storage.Model {
	t.Helper()
	var out storage.Model
	err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		if e.Name == name {
			out = e.Model
		}
		return nil
	})
	require.True(t, err == nil && out != nil, "model %q: %v, %v", name, out, err)
	return out
}

func record(n uint64) storage.Record {
	return storage.Record{First: n, Last: n, Data: fmt.Appendf(nil, "record %d", n)}
}

func commit(n uint64, ids ...storage.ID) storage.Commit {
	return storage.Commit{Record: record(n), IDs: ids}
}

func appended(t *testing.T, m storage.Model, records ...storage.Record) {
	t.Helper()
	for _, r := range records {
		require.NoError(t, m.Append(t.Context(), storage.Commit{Record: r}))
	}
}

func replayed(t *testing.T, m storage.Model) []storage.Record {
	t.Helper()
	var out []storage.Record
	err := m.Replay(t.Context(), 0, func(r storage.Record) error {
		r.Data = append([]byte(nil), r.Data...)
		out = append(out, r)
		return nil
	})
	require.NoError(t, err)
	return out
}

// Power cuts at random moments under concurrent appends: what was
// acknowledged is there, in order, without gaps; what Sync covered is there.
func TestPowerCuts(t *testing.T) {
	rng := seeded(t)
	cuts := times(20, 200)
	for range cuts {
		fs := vfs.NewCrashableMem()
		s := open(t, fs)
		models := []storage.Model{create(t, s, "a"), create(t, s, "b"), create(t, s, "c")}
		acknowledged := make([]atomic.Uint64, len(models))
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for n, m := range models {
			writers.Go(func() {
				for k := uint64(1); k <= 40; k++ {
					if err := m.Append(t.Context(), commit(k, storage.ID{ID: "with-" + strconv.FormatUint(k, 10), At: time.Unix(int64(k), 0)})); err != nil {
						t.Error(err)
						return
					}
					acknowledged[n].Store(k)
					assert.NoError(t, m.PutIDs(t.Context(), []storage.ID{{ID: strconv.FormatUint(k, 10), At: time.Unix(int64(k), 0)}}))
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for before := uint64(rng.IntN(30)); acknowledged[0].Load() < before; {
			runtime.Gosched()
		}
		synced := acknowledged[0].Load()
		if rng.IntN(3) == 0 {
			assert.NoError(t, s.Sync(t.Context()))
		} else {
			synced = 0
		}
		minIDs := make([]uint64, len(models))
		for n := range models {
			minIDs[n] = acknowledged[n].Load()
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		close(stop)
		writers.Wait()
		closed(t, s)

		s = open(t, cut)
		for n := range models {
			m := find(t, s, string(rune('a'+n)))
			got := replayed(t, m)
			require.GreaterOrEqual(t, uint64(len(got)), minIDs[n], "model %d: %d records after the cut, %d acknowledged", n, len(got), minIDs[n])
			for k, r := range got {
				require.True(t, reflect.DeepEqual(r, record(uint64(k+1))), "model %d, record %d: %+v", n, k+1, r)
			}
			// The ids of a commit are there if and only if its record is.
			for k := range uint64(42) {
				_, ok, err := m.ID("with-" + strconv.FormatUint(k, 10))
				require.True(t, err == nil && ok == (k >= 1 && k <= uint64(len(got))), "model %d: the id of record %d of %d is there: %v, %v", n, k, len(got), ok, err)
			}
		}
		// The last seen write before Sync may still have been on its way.
		for k := uint64(1); k < synced; k++ {
			_, ok, err := find(t, s, "a").ID(strconv.FormatUint(k, 10))
			require.True(t, ok && err == nil, "seen %d of %d is gone after Sync: %v", k, synced, err)
		}
		closed(t, s)
	}
}

// After a failed sync nothing is acknowledged, and what was before is there.
func TestFailedSync(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs, fails := failing(mem, syscall.EIO, syncs)
	s := open(t, fs)
	m := create(t, s, "m")
	appended(t, m, record(1), record(2))
	fails.Store(true)
	require.ErrorIs(t, m.Append(t.Context(), commit(3)), storage.ErrFailed)
	fails.Store(false)
	for name, err := range map[string]error{
		"append":  m.Append(t.Context(), commit(3)),
		"seen":    m.PutIDs(t.Context(), []storage.ID{{ID: "x"}}),
		"pending": m.PutPending([]storage.Prediction{{ID: "x"}}),
		"sync":    s.Sync(t.Context()),
		"failed":  s.Failed(),
	} {
		assert.ErrorIs(t, err, storage.ErrFailed, name)
	}
	cut := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Logf("close after the failure: %v", err)
	}
	s = open(t, cut)
	defer closed(t, s)
	got := replayed(t, find(t, s, "m"))
	assert.GreaterOrEqual(t, len(got), 2, "%d records left of 2 acknowledged", len(got))
}

// child writes and is killed the moment its calls have returned.
func child(dir string) {
	s, err := store.Open(dir, store.Options{Async: os.Getenv(childAsync) != ""})
	if err != nil {
		panic(err)
	}
	m, err := s.Create(context.Background(), "m", nil)
	if err != nil {
		panic(err)
	}
	if err := errors.Join(
		m.Append(context.Background(), commit(1)),
		m.PutPending([]storage.Prediction{{ID: "p", Value: []byte("kept"), Expiry: time.Unix(1, 0)}}),
		(&os.Process{Pid: os.Getpid()}).Kill(),
	); err != nil {
		panic(err)
	}
	select {}
}

func TestKill(t *testing.T) {
	for name, async := range map[string]string{"synced": "", "async": "yes"} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				kill(t, async)
			}
		})
	}
}

func kill(t *testing.T, async string) {
	t.Helper()
	dir := t.TempDir()
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(), childDirectory+"="+dir, childAsync+"="+async)
	out, err := victim.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL, "the child ended with %v: %s", err, out)
	s := must(store.Open(dir, store.Options{}))(t)
	defer closed(t, s)
	assert.Len(t, replayed(t, find(t, s, "m")), 1)
	p, ok, err := find(t, s, "m").GetPending("p")
	assert.True(t, err == nil && ok && string(p.Value) == "kept", "pending: %+v, %v, %v", p, ok, err)
	second := exec.CommandContext(t.Context(), os.Args[0])
	second.Env = victim.Env
	out, err = second.CombinedOutput()
	want := "store: data directory " + dir + " is in use by another process"
	assert.True(t, err != nil && strings.Contains(string(out), want), "a second process: %v: %s", err, out)
	assert.ErrorIs(t, errOf(store.Open(dir, store.Options{})), store.ErrInUse, "a second opener")
}

func TestAsyncSyncsInTheBackground(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs, func(o *store.Options) { o.Async = true })
	defer closed(t, s)
	appended(t, create(t, s, "m"), record(1))
	// Synced is what a power cut leaves. A count of syncs does not tell it: the sync of this
	// record may come before the count is read.
	synced := func() int {
		cut := open(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		defer closed(t, cut)
		return len(replayed(t, find(t, cut, "m")))
	}
	for deadline := time.Now().Add(3 * time.Minute); synced() != 1; time.Sleep(time.Millisecond) {
		require.False(t, time.Now().After(deadline), "never synced")
	}
}

// must returns v. An error ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

var (
	_ storage.Store = (*store.Store)(nil)
	_ storage.Model = (*store.Model)(nil)
)

func TestContract(t *testing.T) {
	kinds := map[string]func(*store.Options){"usual": func(*store.Options) {}}
	if isLong() {
		kinds["small tables"] = store.SmallMemTables
	}
	for name, set := range kinds {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) storetest.Backend {
				t.Helper()
				return backend(t, vfs.NewCrashableMem(), set)
			}
			storetest.Run(t, open)
			storetest.RunPositions(t, open)
		})
	}
}

// backend opens a directory of a file system for the suite. A killed process
// leaves what it wrote, a power cut what it synced.
func backend(t *testing.T, fs *vfs.MemFS, set ...func(*store.Options)) storetest.Backend {
	t.Helper()
	s := open(t, fs, set...)
	t.Cleanup(func() { closed(t, s) })
	again := func(c vfs.CrashCloneCfg) func(*testing.T) storetest.Backend {
		return func(t *testing.T) storetest.Backend {
			t.Helper()
			left := fs.CrashClone(c)
			closed(t, s)
			return backend(t, left, set...)
		}
	}
	return storetest.Backend{
		Store: s,
		Kill:  again(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}),
		Cut:   again(vfs.CrashCloneCfg{}),
	}
}

func errOf[T any](_ T, err error) error { return err }
