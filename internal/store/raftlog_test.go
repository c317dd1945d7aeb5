package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

const raftDirectory = "data/groups/0/raft"

func openRaft(t *testing.T, fs vfs.FS, set ...func(*store.Options)) *store.RaftLog {
	t.Helper()
	return must(tryRaft(fs, set...))(t)
}

func tryRaft(fs vfs.FS, set ...func(*store.Options)) (*store.RaftLog, error) {
	o := store.Options{FS: fs}
	for _, f := range set {
		f(&o)
	}
	return store.OpenRaftLog(raftDirectory, o)
}

func closedRaft(t *testing.T, l *store.RaftLog) {
	t.Helper()
	assert.NoError(t, errors.Join(l.Close(), l.Close()))
}

func entry(index, term uint64) store.RaftEntry {
	return store.RaftEntry{
		Index: index, Term: term, Type: uint8(index % 5), AppendedAt: time.Unix(int64(index), int64(term)),
		Data: fmt.Appendf(nil, "entry %d of term %d", index, term), Extensions: bytes.Repeat([]byte{'e'}, int(index%3)),
	}
}

func entriesOf(term uint64, indices ...uint64) (out []store.RaftEntry) {
	for _, n := range indices {
		out = append(out, entry(n, term))
	}
	return out
}

// raftState is the state of a server of Raft.
type raftState struct {
	entries map[uint64]store.RaftEntry
	values  map[string]string
}

func (r raftState) clone() raftState { return raftState{maps.Clone(r.entries), maps.Clone(r.values)} }

// raftStateOf reads all of a log: the entries between its ends, and the values of some keys.
func raftStateOf(t *testing.T, l *store.RaftLog) raftState {
	t.Helper()
	return must(readRaft(l))(t)
}

func readRaft(l *store.RaftLog) (raftState, error) {
	out := raftState{map[uint64]store.RaftEntry{}, map[string]string{}}
	first, err1 := l.FirstIndex()
	last, err2 := l.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return out, err
	}
	for n := first; n <= last && n > 0; n++ {
		e, err := l.Entry(n)
		if errors.Is(err, store.ErrNoEntry) && n > first && n < last {
			continue
		}
		if err != nil {
			return out, err
		}
		out.entries[n] = e
	}
	for k := range 3 {
		value, err := l.Get([]byte{byte('0' + k)})
		if errors.Is(err, store.ErrNoValue) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.values[strconv.Itoa(k)] = string(value)
	}
	return out, nil
}

func sameRaft(a, b raftState) bool {
	return maps.Equal(a.values, b.values) && maps.EqualFunc(a.entries, b.entries, func(a, b store.RaftEntry) bool {
		return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && a.AppendedAt.Equal(b.AppendedAt) &&
			bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Extensions, b.Extensions)
	})
}

func wantIndices(t *testing.T, l *store.RaftLog, want ...uint64) {
	t.Helper()
	assert.Equal(t, want, slices.Sorted(maps.Keys(raftStateOf(t, l).entries)))
}

func TestRaftLog(t *testing.T) {
	fs := vfs.NewMem()
	l := openRaft(t, fs)
	wantIndices(t, l)
	again := func(want ...uint64) {
		t.Helper()
		wantIndices(t, l, want...)
		closedRaft(t, l)
		l = openRaft(t, fs)
		wantIndices(t, l, want...)
	}
	do := func(errs ...error) {
		t.Helper()
		require.NoError(t, errors.Join(errs...))
	}
	do(l.Append(nil), l.Append(entriesOf(1, 1, 2, 3, 4, 5)))
	again(1, 2, 3, 4, 5)
	do(l.DeleteRange(4, 5), l.Append(entriesOf(2, 4, 5, 6)))
	again(1, 2, 3, 4, 5, 6)
	do(l.Append(entriesOf(2, 6)), l.DeleteRange(1, 2))
	again(3, 4, 5, 6)
	do(l.DeleteRange(6, math.MaxUint64))
	again(3, 4, 5)
	do(l.Append(entriesOf(3, 10, 11)), l.DeleteRange(9, 8)) // Behind a hole.
	again(3, 4, 5, 10, 11)
	do(l.DeleteRange(3, 7))
	again(10, 11)
	do(l.DeleteRange(0, 11))
	again()
	do(l.Append([]store.RaftEntry{{Index: 20}}))
	again(20)
	e, err := l.Entry(20)
	assert.True(t, err == nil && e.AppendedAt.IsZero() && len(e.Data) == 0 && len(e.Extensions) == 0, "entry %+v, %v", e, err)
	assert.ErrorIs(t, errOf(l.Entry(21)), store.ErrNoEntry)
	closedRaft(t, l)
}

func TestRaftValues(t *testing.T) {
	fs := vfs.NewMem()
	l := openRaft(t, fs)
	// The Raft library compares the text.
	v, err := l.Get([]byte("a"))
	assert.True(t, errors.Is(err, store.ErrNoValue) && err.Error() == "not found" && v == nil, "%q, %v", v, err)
	if v, err := l.GetUint64([]byte("n")); !errors.Is(err, store.ErrNoValue) || err.Error() != "not found" || v != 0 {
		t.Errorf("%d, %v", v, err)
	}
	if err := errors.Join(l.Set([]byte("a"), []byte("one")), l.Set([]byte("a"), []byte("two")), l.Set([]byte("empty"), nil),
		l.SetUint64([]byte("n"), math.MaxUint64)); err != nil {
		t.Fatal(err)
	}
	closedRaft(t, l)
	l = openRaft(t, fs)
	defer closedRaft(t, l)
	a, err1 := l.Get([]byte("a"))
	empty, err2 := l.Get([]byte("empty"))
	n, err3 := l.GetUint64([]byte("n"))
	err = errors.Join(err1, err2, err3)
	assert.True(t, err == nil && string(a) == "two" && len(empty) == 0 && n == math.MaxUint64, "%q, %q, %d, %v", a, empty, n, err)
	assert.ErrorIs(t, errOf(l.GetUint64([]byte("a"))), storage.ErrCorrupt)
	assert.ErrorIs(t, errOf(tryRaft(fs)), store.ErrInUse)
}

// raftStep does one random operation on a log and on its expected state.
func raftStep(rng *rand.Rand, l *store.RaftLog, want raftState) (after raftState, err error) {
	after = want.clone()
	indices := slices.Sorted(maps.Keys(want.entries))
	first, last := uint64(0), uint64(0)
	if len(indices) > 0 {
		first, last = indices[0], indices[len(indices)-1]
	}
	switch n := rng.IntN(10); {
	case n < 6:
		next, term := last+1+rng.Uint64N(10)/9, rng.Uint64()
		var entries []store.RaftEntry
		for k := range 1 + rng.Uint64N(4) {
			e := entry(next+k, term)
			e.Data = append(e.Data, make([]byte, rng.IntN(8000))...)
			entries = append(entries, e)
			after.entries[e.Index] = e
		}
		return after, l.Append(entries)
	case n < 7: // Like a compaction.
		through := first + rng.Uint64N(last-first+1)
		maps.DeleteFunc(after.entries, func(n uint64, _ store.RaftEntry) bool { return n <= through })
		return after, l.DeleteRange(first, through)
	case n < 8: // Like a new leader's cut.
		from := last - rng.Uint64N(last-first+1)
		maps.DeleteFunc(after.entries, func(n uint64, _ store.RaftEntry) bool { return n >= from })
		return after, l.DeleteRange(from, last)
	default:
		k, v := strconv.Itoa(rng.IntN(3)), strconv.FormatUint(rng.Uint64(), 10)
		after.values[k] = v
		return after, l.Set([]byte(k), []byte(v))
	}
}

// After a power cut before any write to the disk the log opens. It has all acknowledged operations, and all or
// nothing of the operation in progress.
func TestRaftLogCrashes(t *testing.T) {
	oneGoroutine(t)
	rng := seeded(t)
	for range times(3, 10) {
		disk := vfs.NewCrashableMem()
		type image struct {
			fs   *vfs.MemFS
			done int
		}
		var mu struct {
			sync.Mutex
			images []image
		}
		var done atomic.Int64
		var armed atomic.Bool
		l := openRaft(t, inject(disk, func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && armed.Load() {
				mu.Lock()
				defer mu.Unlock()
				if rng.IntN(4) > 0 {
					return nil
				}
				for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
					n := int(done.Load()) // Operations acknowledged before the clone must be on it.
					mu.images = append(mu.images, image{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), n})
				}
			}
			return nil
		}), store.SmallMemTables)
		armed.Store(true)
		want := []raftState{raftStateOf(t, l)}
		choices := rand.New(rand.NewPCG(rng.Uint64(), 1))
		for n := range 120 {
			next := must(raftStep(choices, l, want[n]))(t)
			want = append(want, next)
			done.Add(1)
		}
		armed.Store(false)
		closedRaft(t, l)
		rng.Shuffle(len(mu.images), func(i, j int) { mu.images[i], mu.images[j] = mu.images[j], mu.images[i] })
		for _, left := range mu.images[:min(len(mu.images), times(60, 150))] {
			l := openRaft(t, left.fs, store.SmallMemTables)
			got := raftStateOf(t, l)
			if !sameRaft(got, want[left.done]) && (left.done+1 == len(want) || !sameRaft(got, want[left.done+1])) {
				t.Fatalf("after %d operations: %v", left.done, slices.Sorted(maps.Keys(got.entries)))
			}
			next, err := raftStep(choices, l, got)
			require.True(t, err == nil && sameRaft(raftStateOf(t, l), next), "the log does not go on: %v", err)
			closedRaft(t, l)
		}
	}
}

// A rejected write ends all writing, and the log keeps all acknowledged operations.
func TestRaftLogRejectedWrites(t *testing.T) {
	for name, rejects := range map[string]func(errorfs.Op) bool{
		"sync":  syncs,
		"write": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite },
		"begin": creates,
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			disk, fails := failing(mem, syscall.EIO, rejects)
			l := openRaft(t, disk, store.SmallMemTables)
			require.NoError(t, errors.Join(l.Append(entriesOf(1, 1, 2)), l.SetUint64([]byte("term"), 1)))
			fails.Store(true)
			acknowledged := uint64(2)
			within(t, "appending", func() {
				for n := uint64(3); ; n++ {
					e := entry(n, 1)
					e.Data = make([]byte, 8000)
					if err := l.Append([]store.RaftEntry{e}); err != nil {
						assert.True(t, errors.Is(err, storage.ErrFailed) && errors.Is(err, syscall.EIO), "append: %v", err)
						return
					}
					acknowledged = n
				}
			})
			fails.Store(false)
			<-l.Rejected()
			for what, err := range map[string]error{
				"append": l.Append(entriesOf(1, 99)), "delete": l.DeleteRange(1, 1), "set": l.SetUint64([]byte("term"), 2), "failed": l.Failed(),
			} {
				assert.ErrorIs(t, err, storage.ErrFailed, what)
			}
			e, err := l.Entry(acknowledged)
			assert.True(t, err == nil && e.Index == acknowledged, "entry %d: %+v, %v", acknowledged, e.Index, err)
			cut := mem.CrashClone(vfs.CrashCloneCfg{})
			within(t, "closing", func() { closedRaft(t, l) })
			l = openRaft(t, cut)
			defer closedRaft(t, l)
			last, err1 := l.LastIndex()
			term, err2 := l.GetUint64([]byte("term"))
			err = errors.Join(err1, err2)
			assert.True(t, err == nil && last >= acknowledged && term == 1, "the log ends at %d of %d, term %d, %v", last, acknowledged, term, err)
		})
	}
}

// After a flip of any bit the log opens with its contents unchanged, or does not open.
func TestRaftLogDamage(t *testing.T) {
	oneGoroutine(t)
	rng := seeded(t)
	disk := vfs.NewCrashableMem()
	l := openRaft(t, disk, store.SmallMemTables)
	want := raftStateOf(t, l)
	for range 150 {
		next := must(raftStep(rng, l, want))(t)
		want = next
	}
	whole := func(disk *vfs.MemFS) *vfs.MemFS {
		return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
	}
	left := whole(disk) // Compactions still remove files of disk.
	closedRaft(t, l)
	directory := raftDirectory + "/log"
	files := must(left.List(directory))(t)
	images := map[bool]int{}
	for range times(150, 1000) {
		fs := whole(left)
		file := files[rng.IntN(len(files))]
		if !flip(t, rng, fs, directory+"/"+file) {
			continue
		}
		l, err := tryRaft(fs, store.SmallMemTables)
		images[err == nil]++
		if err != nil {
			assert.True(t, (!strings.HasSuffix(file, ".log") && !strings.HasSuffix(file, ".sst")) || errors.Is(err, storage.ErrCorrupt), "%s: %v", file, err)
			continue
		}
		got, err := readRaft(l)
		if err == nil && !sameRaft(got, want) {
			t.Errorf("a flipped bit in %s: %v, want %v", file, slices.Sorted(maps.Keys(got.entries)), slices.Sorted(maps.Keys(want.entries)))
		}
		closedRaft(t, l)
	}
	assert.True(t, images[true] != 0 && images[false] != 0, "not both outcomes: %v", images)
	t.Log(images)
}

// flip flips one bit of a file. It returns false if the file has none.
func flip(t *testing.T, rng *rand.Rand, fs vfs.FS, path string) bool {
	t.Helper()
	f := must(fs.Open(path))(t)
	data, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	if len(data) == 0 {
		return false
	}
	data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
	f, err = fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return true
}

// The log rejects an entry or a value whose bytes have changed.
func TestRaftLogChecksums(t *testing.T) {
	whole := vfs.NewCrashableMem()
	l := openRaft(t, whole)
	require.NoError(t, errors.Join(l.Append(entriesOf(7, 1, 2, 3)), l.SetUint64([]byte("term"), 7)))
	closedRaft(t, l)
	for _, k := range [][]byte{numbered('l', 2), []byte("kterm")} {
		for bit := 0; ; bit += 13 {
			fs, end := whole.CrashClone(vfs.CrashCloneCfg{}), false
			tamperIn(t, fs, raftDirectory+"/log", func(db *pebble.DB) error {
				stored, closer, err := db.Get(k)
				if err != nil {
					return err
				}
				v := bytes.Clone(stored)
				if end = bit >= 8*len(v); end {
					v = v[:len(v)-1]
				} else {
					v[bit/8] ^= 1 << (bit % 8)
				}
				return errors.Join(closer.Close(), db.Set(k, v, pebble.Sync))
			})
			l, err := tryRaft(fs)
			assert.ErrorIs(t, err, storage.ErrCorrupt, "%v %v %v", bit, k, l)
			if end {
				break
			}
		}
	}
}
