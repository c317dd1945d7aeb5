package store_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

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
