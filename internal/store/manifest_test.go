package store_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// A bit of a current manifest flips, or its end is gone. A log database does not open as it
// was before, without ids and records, and pending predictions are whole or set aside.
func TestDamagedManifest(t *testing.T) {
	rng := seeded(t)
	fs := vfs.NewCrashableMem()
	const rows = 30
	for start := range uint64(3) {
		s := open(t, fs)
		var m storage.Model
		if start == 0 {
			m = create(t, s, "m")
		} else {
			m = find(t, s, "m")
		}
		for n := start*10 + 1; n <= start*10+10; n++ {
			appended(t, m, record(n))
			id := strconv.FormatUint(n, 10)
			if err := errors.Join(
				m.PutIDs(t.Context(), []storage.ID{{ID: id, At: time.Unix(1, 0)}}),
				m.PutPending([]storage.Prediction{{ID: id, Expiry: time.Unix(1, 0)}}),
			); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, s)
	}
	flips := times(40, 200)
	rejected, aside := 0, 0
	for n := range flips {
		disk := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		directory := []string{"data/log", "data/pending"}[n%2]
		current := must(pebble.Peek(directory, disk))(t)
		path := directory + "/" + disk.PathBase(current.ManifestFilename)
		data := contentOf(t, disk, path)
		at := rng.IntN(len(data))
		if n%8 > 5 {
			data = data[:at]
		} else {
			data[at] ^= 1 << rng.IntN(8)
		}
		rewrite(t, disk, path, data)
		s, err := store.Open("data", store.Options{FS: disk})
		if directory == "data/log" {
			rejected++
			if err == nil {
				t.Fatalf("byte %d of %d of %s: opened with %d records", at, len(data), path, len(replayed(t, find(t, s, "m"))))
			}
			assert.Contains(t, err.Error(), "MANIFEST", "%v %v %v %v", at, len(data), path, err)
			continue
		}
		require.NoError(t, err, "%v %v %v", at, len(data), path)
		m := find(t, s, "m")
		assert.EqualValues(t, rows, len(replayed(t, m)))
		_, err = disk.Stat("data/pending.damaged-1")
		got := m.CountPending()
		assert.True(t, got == rows || err == nil, "byte %d of %d of %s: %d predictions wait, and nothing was set aside", at, len(data), path, got)
		if err == nil {
			aside++
		}
		closed(t, s)
	}
	t.Logf("%d damaged manifests: %d rejected, %d set aside", flips, rejected, aside)
}
