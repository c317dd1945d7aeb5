package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"hindsight/internal/store"
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
	s, err := store.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func create(t *testing.T, s *store.Store, name string) store.Model {
	t.Helper()
	m, err := s.CreateModel(name, []byte(name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func record(n uint64) store.Record {
	return store.Record{First: n, Last: n, Data: fmt.Appendf(nil, "record %d", n)}
}

func appended(t *testing.T, s *store.Store, m store.Model, records ...store.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Append(m, r); err != nil {
			t.Fatal(err)
		}
	}
}

func replayed(t *testing.T, s *store.Store, m store.Model, after uint64) []store.Record {
	t.Helper()
	var out []store.Record
	err := s.Replay(m, after, func(r store.Record) error {
		r.Data = append([]byte(nil), r.Data...)
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRegistry(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	a, b := create(t, s, "a"), create(t, s, "b")
	if _, err := s.CreateModel("a", nil); !errors.Is(err, store.ErrModelExists) {
		t.Errorf("created twice: %v", err)
	}
	appended(t, s, a, record(1))
	if err := errors.Join(
		s.PutSeen(a, time.Unix(1, 0), []store.Seen{{ID: "x", Value: []byte("1")}}),
		s.PutPending(a, []store.Pending{{ID: "y", Expiry: time.Unix(9, 0)}}),
		s.WriteSnapshot(a, 1, []byte("state")),
		s.DeleteModel("a"),
	); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteModel("a"); !errors.Is(err, store.ErrModelNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	again := create(t, s, "a")
	if again == a || again == b {
		t.Errorf("the number %d is used again", again)
	}
	closed(t, s)
	s = open(t, fs)
	defer closed(t, s)
	var names []string
	err := s.Models(func(name string, m store.Model, value []byte) error {
		names = append(names, fmt.Sprint(name, m, string(value)))
		return nil
	})
	if want := []string{fmt.Sprint("a", again, "a"), fmt.Sprint("b", b, "b")}; err != nil || !reflect.DeepEqual(names, want) {
		t.Errorf("models %v, %v; want %v", names, err, want)
	}
	for _, m := range []store.Model{a, again} {
		_, seen, err1 := s.GetSeen(m, "x")
		_, waits, err2 := s.GetPending(m, "y")
		snapshots, err3 := s.Snapshots(m)
		last, err4 := s.LastSequence(m)
		if err := errors.Join(err1, err2, err3, err4); err != nil || seen || waits || len(snapshots) > 0 || last > 0 {
			t.Errorf("left of model %d: %v %v %v %d, %v", m, seen, waits, snapshots, last, err)
		}
	}
}

func TestLog(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m, other := create(t, s, "m"), create(t, s, "other")
	records := []store.Record{record(1), {First: 2, Last: 5, Data: []byte("four")}, record(6), record(7)}
	appended(t, s, m, records...)
	appended(t, s, other, record(1))
	for _, bad := range []store.Record{record(7), record(9), {First: 8, Last: 7}, record(1)} {
		if err := s.Append(m, bad); !errors.Is(err, store.ErrSequence) {
			t.Errorf("%d to %d: %v", bad.First, bad.Last, err)
		}
	}
	closed(t, s)
	s = open(t, fs)
	defer closed(t, s)
	if last, err := s.LastSequence(m); last != 7 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
	for after, want := range map[uint64][]store.Record{0: records, 1: records[1:], 3: records[1:], 5: records[2:], 7: nil} {
		if got := replayed(t, s, m, after); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d: %v, want %v", after, got, want)
		}
	}
	if err := errors.Join(s.TruncateLog(m, 6), s.TruncateLog(other, 99)); err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, s, other, 0); len(got) != 1 {
		t.Errorf("%d records of a log cut behind its end, want the last one", len(got))
	}
	if got := replayed(t, s, m, 5); !reflect.DeepEqual(got, records[2:]) {
		t.Errorf("after the cut: %v", got)
	}
	var corrupt *store.CorruptError
	err := s.Replay(m, 0, func(store.Record) error { return nil })
	if !errors.As(err, &corrupt) || corrupt.Sequence != 1 {
		t.Errorf("a log that does not reach back: %v", err)
	}
	stop := errors.New("stop")
	if err := s.Replay(m, 5, func(store.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped with %v", err)
	}
}

func TestSeen(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m := create(t, s, "m")
	put := func(second int64, id, value string) {
		t.Helper()
		if err := s.PutSeen(m, time.Unix(second, 0), []store.Seen{{ID: id, Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	put(1, "a", "1")
	put(1, "a", "1")
	if err := s.AddSeen(m, time.Unix(2, 0), []store.Seen{{ID: "b", Value: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	put(3, "c", "3")
	put(4, "a", "4") // Remembered again, later: the earlier time is void.
	if err := s.PutSeen(m, time.Unix(5, 0), []store.Seen{{ID: "d"}, {ID: "d"}, {ID: "e"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Metrics().RememberedIDs; got != 5 {
		t.Errorf("%d ids counted, want 5", got)
	}
	closed(t, s)
	s = open(t, fs)
	defer closed(t, s)
	if got := s.Metrics().RememberedIDs; got != 5 {
		t.Errorf("%d ids counted when opened again, want 5", got)
	}
	for _, step := range []struct {
		before      int64
		keep, limit int
		forgets     int
	}{{10, 5, 10, 0}, {2, 0, 10, 0}, {10, 3, 1, 1}, {10, 3, 10, 1}, {4, 0, 10, 0}} {
		n, err := s.ForgetSeen(time.Unix(step.before, 0), step.keep, step.limit)
		if err != nil || n != step.forgets {
			t.Errorf("%+v forgot %d, %v", step, n, err)
		}
	}
	for id, want := range map[string]string{"a": "4", "b": "", "c": "", "x": ""} {
		value, ok, err := s.GetSeen(m, id)
		if err != nil || string(value) != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, %v", id, value, ok, err)
		}
	}
	long := []store.Seen{{ID: string(make([]byte, 129))}}
	for name, err := range map[string]error{"put": s.PutSeen(m, time.Unix(1, 0), long), "add": s.AddSeen(m, time.Unix(1, 0), long)} {
		if !errors.Is(err, store.ErrInvalidID) {
			t.Errorf("%s of a long id: %v", name, err)
		}
	}
}

func TestPending(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m := create(t, s, "m")
	put := func(id string, expiry int64) {
		t.Helper()
		if err := s.PutPending(m, []store.Pending{{ID: id, Value: []byte(id), Expiry: time.Unix(expiry, 0)}}); err != nil {
			t.Fatal(err)
		}
	}
	put("a", 1)
	put("b", 2)
	put("c", 3)
	put("a", 9) // Kept longer.
	if n, err := s.RemovePending(m, []string{"b", "nobody"}); n != 1 || err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s = open(t, fs)
	defer closed(t, s)
	if n, err := s.CountPending(); n[m] != 2 || err != nil {
		t.Errorf("%v wait, %v", n, err)
	}
	var expired []string
	if _, err := s.ExpirePending(time.Unix(3, 0), 10, func(_ store.Model, id string) { expired = append(expired, id) }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(expired, []string{"c"}) {
		t.Errorf("expired %v", expired)
	}
	p, ok, err := s.GetPending(m, "a")
	if err != nil || !ok || string(p.Value) != "a" || !p.Expiry.Equal(time.Unix(9, 0)) {
		t.Errorf("a: %+v, %v, %v", p, ok, err)
	}
	if _, ok, err := s.GetPending(m, "c"); ok || err != nil {
		t.Errorf("c: %v, %v", ok, err)
	}
}

func TestSnapshots(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m := create(t, s, "m")
	for _, n := range []uint64{5, 100, 20} {
		if err := s.WriteSnapshot(m, n, fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
	}
	unfinished, err := fs.Create("data/snapshots/1/00000000000000000200.hs.tmp", vfs.WriteCategoryUnspecified)
	if err := errors.Join(err, unfinished.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveSnapshot(m, 5); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s = open(t, fs)
	defer closed(t, s)
	if got, err := s.Snapshots(m); err != nil || !reflect.DeepEqual(got, []uint64{100, 20}) {
		t.Errorf("snapshots %v, %v", got, err)
	}
	if data, err := s.ReadSnapshot(m, 20); err != nil || string(data) != "20" {
		t.Errorf("%q, %v", data, err)
	}
	if files, err := fs.List("data/snapshots/1"); err != nil || len(files) != 2 {
		t.Errorf("files %v, %v", files, err)
	}
}

// Power cuts at random moments under concurrent appends: what was
// acknowledged is there, in order, without gaps; what Sync covered is there.
func TestPowerCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	cuts := 200
	if testing.Short() {
		cuts = 20
	}
	for range cuts {
		fs := vfs.NewCrashableMem()
		s := open(t, fs)
		models := []store.Model{create(t, s, "a"), create(t, s, "b"), create(t, s, "c")}
		acknowledged := make([]atomic.Uint64, len(models))
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for n, m := range models {
			writers.Go(func() {
				for k := uint64(1); k <= 40; k++ {
					if err := s.Append(m, record(k)); err != nil {
						t.Error(err)
						return
					}
					acknowledged[n].Store(k)
					if err := s.PutSeen(m, time.Unix(int64(k), 0), []store.Seen{{ID: strconv.FormatUint(k, 10)}}); err != nil {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		synced := acknowledged[0].Load()
		if rng.IntN(3) == 0 {
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		} else {
			synced = 0
		}
		least := make([]uint64, len(models))
		for n := range models {
			least[n] = acknowledged[n].Load()
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		close(stop)
		writers.Wait()
		closed(t, s)

		s = open(t, cut)
		for n, m := range models {
			got := replayed(t, s, m, 0)
			if uint64(len(got)) < least[n] {
				t.Fatalf("model %d: %d records after the cut, %d acknowledged", n, len(got), least[n])
			}
			for k, r := range got {
				if !reflect.DeepEqual(r, record(uint64(k+1))) {
					t.Fatalf("model %d, record %d: %+v", n, k+1, r)
				}
			}
		}
		// The last seen write before Sync may still have been on its way.
		for k := uint64(1); k < synced; k++ {
			if _, ok, err := s.GetSeen(models[0], strconv.FormatUint(k, 10)); !ok || err != nil {
				t.Fatalf("seen %d of %d is gone after Sync: %v", k, synced, err)
			}
		}
		closed(t, s)
	}
}

// After a failed sync nothing is acknowledged, and what was before is there.
func TestFailedSync(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var failing atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if syncs && failing.Load() {
			return syscall.EIO
		}
		return nil
	}))
	s := open(t, fs)
	m := create(t, s, "m")
	appended(t, s, m, record(1), record(2))
	failing.Store(true)
	if err := s.Append(m, record(3)); !errors.Is(err, store.ErrFailed) {
		t.Fatalf("append: %v", err)
	}
	failing.Store(false)
	for name, err := range map[string]error{
		"append":  s.Append(m, record(3)),
		"seen":    s.PutSeen(m, time.Unix(1, 0), []store.Seen{{ID: "x"}}),
		"new ids": s.AddSeen(m, time.Unix(1, 0), []store.Seen{{ID: "x"}}),
		"pending": s.PutPending(m, []store.Pending{{ID: "x"}}),
		"sync":    s.Sync(),
		"failed":  s.Failed(),
	} {
		if !errors.Is(err, store.ErrFailed) {
			t.Errorf("%s after the failure: %v", name, err)
		}
	}
	cut := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Logf("close after the failure: %v", err)
	}
	s = open(t, cut)
	defer closed(t, s)
	if got := replayed(t, s, m, 0); len(got) < 2 {
		t.Errorf("%d records left of 2 acknowledged", len(got))
	}
}

// Damaged pending predictions do not keep the server from starting.
func TestDamagedPendingIsPutAside(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	m := create(t, s, "m")
	appended(t, s, m, record(1))
	closed(t, s)
	files, err := fs.List("data/pending")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if len(f) > 8 && f[:8] == "MANIFEST" {
			file, err := fs.Create("data/pending/"+f, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write([]byte("this is no manifest at all")); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, fs)
	defer closed(t, s)
	if got := replayed(t, s, m, 0); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
	if _, err := fs.Stat("data/pending.damaged-1"); err != nil {
		t.Errorf("not put aside: %v", err)
	}
}

// child writes and is killed the moment its calls have returned.
func child(dir string) {
	s, err := store.Open(dir, store.Options{Async: os.Getenv(childAsync) != ""})
	if err != nil {
		panic(err)
	}
	m, err := s.CreateModel("m", nil)
	if err != nil {
		panic(err)
	}
	if err := errors.Join(
		s.Append(m, record(1)),
		s.PutPending(m, []store.Pending{{ID: "p", Value: []byte("kept"), Expiry: time.Unix(1, 0)}}),
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
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v: %s", err, out)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	if got := replayed(t, s, 1, 0); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
	if p, ok, err := s.GetPending(1, "p"); err != nil || !ok || string(p.Value) != "kept" {
		t.Errorf("pending: %+v, %v, %v", p, ok, err)
	}
	second := exec.CommandContext(t.Context(), os.Args[0])
	second.Env = victim.Env
	out, err = second.CombinedOutput()
	if want := "store: data directory " + dir + " is in use by another process"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("a second process: %v: %s", err, out)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a second opener: %v", err)
	}
}

func TestAsyncSyncsInTheBackground(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs, func(o *store.Options) { o.Async = true })
	m := create(t, s, "m")
	appended(t, s, m, record(1))
	before := s.Metrics().Fsyncs
	for deadline := time.Now().Add(10 * time.Second); s.Metrics().Fsyncs == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never synced")
		}
	}
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	closed(t, s)
	s = open(t, cut)
	defer closed(t, s)
	if got := replayed(t, s, m, 0); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
}
