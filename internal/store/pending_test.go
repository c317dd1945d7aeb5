package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// withTables is a disk with a model m of ten records and one of predictions that wait, in
// several tables.
func withTables(t *testing.T, rng *rand.Rand) (fs *vfs.MemFS, waiting int) {
	t.Helper()
	fs = vfs.NewCrashableMem()
	for start := range 4 { // Each start makes a table of what the one before has written.
		s := open(t, fs)
		var m storage.Model
		if start == 0 {
			m = create(t, s, "m")
			for n := range uint64(10) {
				appended(t, m, record(n+1))
			}
		} else {
			m = find(t, s, "m")
		}
		for range 1000 {
			value := make([]byte, 100)
			for n := range value {
				value[n] = byte(rng.Uint32())
			}
			require.NoError(t, m.PutPending([]storage.Prediction{{ID: strconv.Itoa(waiting), Value: value, Expiry: time.Unix(int64(waiting), 0)}}))
			waiting++
		}
		closed(t, s)
	}
	return fs, waiting
}

// tablesOf are the paths of the tables of a database.
func tablesOf(t *testing.T, fs vfs.FS, directory string) (paths []string) {
	t.Helper()
	names := must(fs.List(directory))(t)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			paths = append(paths, directory+"/"+name)
		}
	}
	require.True(t, len(paths) != 0, "no tables among %v", names)
	return paths
}

// flipBit changes a bit of a table of the pending predictions in place. Compactions may
// remove tables meanwhile.
func flipBit(t *testing.T, rng *rand.Rand, fs vfs.FS) (at string) {
	t.Helper()
	for {
		tables := tablesOf(t, fs, "data/pending")
		path := tables[rng.IntN(len(tables))]
		f := must(fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified))(t)
		info, err := f.Stat()
		require.NoError(t, err)
		if info.Size() == 0 { // It was removed, and made again by the call above.
			require.NoError(t, errors.Join(f.Close(), fs.Remove(path)))
			continue
		}
		n, bit, b := rng.Int64N(info.Size()), rng.IntN(8), make([]byte, 1)
		_, err = f.ReadAt(b, n)
		b[0] ^= 1 << bit
		_, writeErr := f.WriteAt(b, n)
		require.NoError(t, errors.Join(err, writeErr, f.Sync(), f.Close()))
		return fmt.Sprintf("byte %d of %d of %s, bit %d", n, info.Size(), path, bit)
	}
}

// A bit of a table of the pending predictions flips, at rest or while the store is open.
// No call fails, every answer is right or says that nothing waits, the log is whole, and
// the count is that of the rows.
func TestDamagedPendingTable(t *testing.T) {
	rng := seeded(t)
	fs, waiting := withTables(t, rng)
	flips := times(15, 60)
	aside := map[bool]int{}
	for n := range flips {
		disk := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		atRest := n%2 == 0
		var at string
		if atRest {
			at = flipBit(t, rng, disk)
		}
		s := open(t, disk, store.SmallMemTables, func(o *store.Options) { o.Cache = 1 })
		if !atRest {
			// The store has the table open, and reads what is written into it.
			at = flipBit(t, rng, disk)
		}
		m := find(t, s, "m")
		there := useWaiting(t, m, waiting)
		require.NoError(t, s.Expire(t.Context(), time.Unix(int64(waiting/2), 0), func(storage.Model) {}), at)
		require.NoError(t, s.Sync(t.Context()), at)
		require.NoError(t, s.Failed(), at)
		appended(t, m, record(11))
		require.Equal(t, 11, len(replayed(t, m)), at)
		rows := int64(0)
		if err := m.EachPending(t.Context(), func(storage.Prediction) error { rows++; return nil }); err != nil || rows != m.CountPending() || rows != s.CountPending() {
			t.Fatalf("%s: %d rows, %d and %d counted, %v", at, rows, m.CountPending(), s.CountPending(), err)
		}
		closed(t, s)
		_, err := disk.Stat("data/pending.damaged-1")
		require.True(t, err == nil || there >= waiting, "%s: %d of %d predictions are there, and nothing was set aside", at, there, waiting)
		if err == nil {
			aside[atRest]++
		}
		s = open(t, disk)
		require.Equal(t, rows, s.CountPending(), at)
		closed(t, s)
	}
	t.Logf("%d flips: set aside at a start %d, later %d", flips, aside[true], aside[false])
	assert.True(t, aside[true] != 0 && aside[false] != 0, "no damage was found at a start, or none later")
}

// useWaiting calls all that the pending predictions are for, from several goroutines, and
// counts those that were there.
func useWaiting(t *testing.T, m storage.Model, waiting int) (there int) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for n := g; n < waiting; n += 4 {
				id := strconv.Itoa(n)
				p, ok, err := m.GetPending(id)
				if err != nil {
					t.Errorf("get %s: %v", id, err)
					return
				}
				assert.True(t, !ok || len(p.Value) == 100 && p.Expiry.Unix() == int64(n), "prediction %s is %v", id, p)
				if ok {
					mu.Lock()
					there++
					mu.Unlock()
				}
				if n%7 == 0 {
					fresh := storage.Prediction{ID: "new-" + id, Value: []byte(id), Expiry: time.Unix(int64(n), 0), Minted: n%2 == 0}
					if err := errors.Join(m.PutPending([]storage.Prediction{fresh}), m.RemovePending([]string{id})); err != nil {
						t.Errorf("put and remove %s: %v", id, err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	return there
}
