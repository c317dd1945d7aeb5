package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"strconv"
	"strings"
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

// write writes a file durably.
func write(t *testing.T, fs vfs.FS, name, text string) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(text))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	require.NoError(t, err)
}

// all returns the contents of all files below a directory.
func all(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names := must(fs.List(dir))(t)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if info, err := fs.Stat(path); err == nil && info.IsDir() {
			maps.Copy(out, all(t, fs, path))
			continue
		}
		f := must(fs.Open(path))(t)
		data, err := io.ReadAll(f)
		require.NoError(t, errors.Join(err, f.Close()))
		out[path] = string(data)
	}
	return out
}

// A directory of another format is rejected before anything in it changes, also one whose other format is in a
// checkpoint that is to replace its databases.
func TestAnotherFormatIsRejected(t *testing.T) {
	newer := string(store.AppendFormat(nil, storage.Format+1, "v9.9"))
	for name, change := range map[string]func(fs vfs.FS) (want string){
		"newer": func(fs vfs.FS) string {
			write(t, fs, "data/format", newer)
			return "start version v9.9 or a newer one"
		},
		"older": func(fs vfs.FS) string {
			write(t, fs, "data/format", string(store.AppendFormat(nil, storage.OldestFormat-1, "v0.1")))
			return fmt.Sprintf("format %d of version v0.1, want %d", storage.OldestFormat-1, storage.OldestFormat)
		},
		"without a format": func(fs vfs.FS) string {
			require.NoError(t, fs.Remove("data/format"))
			return "has no file"
		},
		"newer checkpoint": func(fs vfs.FS) string {
			require.NoError(t, fs.MkdirAll("data/groups/0/incoming", 0o750))
			write(t, fs, "data/groups/0/incoming/format", newer)
			write(t, fs, "data/groups/0/incoming/complete", "7")
			return "start version v9.9"
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, fs)
			create(t, s, "m")
			closed(t, s)
			want := change(fs)
			before := all(t, fs, "data")
			for _, member := range []bool{false, true} {
				_, err := store.Open("data", store.Options{FS: fs, Member: member})
				assert.True(t, errors.Is(err, store.ErrVersion) && strings.Contains(err.Error(), want), "%v, want %q", err, want)
			}
			assert.Equal(t, all(t, fs, "data"), before)
		})
	}
}

// Every flipped bit of the file format is damage, and no other format.
func TestADamagedFormatIsNoOther(t *testing.T) {
	fs := vfs.NewMem()
	closed(t, open(t, fs))
	right := all(t, fs, "data")["data/format"]
	for at := range len(right) * 8 {
		wrong := []byte(right)
		wrong[at/8] ^= 1 << (at % 8)
		write(t, fs, "data/format", string(wrong))
		_, err := store.Open("data", store.Options{FS: fs})
		assert.True(t, errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, store.ErrVersion), "%q for %q: %v", wrong, right, err)
	}
}

// A server alone writes the newest format. A member of a cluster begins with the oldest, and keeps a format that was raised.
func TestFormats(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	assert.Equal(t, storage.Format, s.Format())
	closed(t, s)
	fs = vfs.NewMem()
	for _, want := range []uint32{storage.OldestFormat, storage.Format} {
		s := must(store.Open("data", store.Options{FS: fs, Member: true, Version: "v1"}))(t)
		assert.Equal(t, want, s.Format())
		assert.NoError(t, s.Raise(t.Context(), storage.Format, "v2"))
		assert.ErrorIs(t, s.Raise(t.Context(), storage.Format+1, "v3"), storage.ErrNewer)
		closed(t, s)
	}
}

// FuzzStoredBytes: whatever the databases give back, reading it ends in a
// value or an error.
func FuzzStoredBytes(f *testing.F) {
	f.Add(numbered('l', 1, 3), append(numbered(0, 3)[1:], "checksum and data"...))
	f.Add(numbered('a', 7, 1), []byte{})
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		r, err := store.DecodeRecord("m", k, v)
		assert.True(t, err != nil || (r.First <= r.Last && len(r.Data) == len(v)-12), "decoded %+v", r)
		_, _, id, err := store.SplitAged(k)
		assert.True(t, err != nil || len(id) == len(k)-17, "id %q of %q", id, k)
		_, value, err := store.SplitTimed(v)
		assert.True(t, err != nil || len(value) == len(v)-8, "value %q of %q", value, v)
		_, value, err = store.SplitEntry(v)
		assert.True(t, err != nil || len(value) == len(v)-8, "value %q of %q", value, v)
		sequence, err := store.SplitRewind(v)
		assert.True(t, err != nil || bytes.Equal(numbered(0, sequence)[1:], v), "sequence %d of %q", sequence, v)
		_, err = store.SplitModel(k)
		assert.True(t, err != nil || len(k) >= 9, "a model out of %q", k)
	})
}

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

func TestMetricsOfTheDisk(t *testing.T) {
	var synced atomic.Int64
	s, err := store.Open(t.TempDir(), store.Options{Synced: func(seconds float64) {
		assert.GreaterOrEqual(t, seconds, 0.0, "a sync of %v s", seconds)
		synced.Add(1)
	}})
	require.NoError(t, err)
	defer closed(t, s)
	appended(t, create(t, s, "m"), record(1), record(2))
	assert.GreaterOrEqual(t, synced.Load(), int64(2))
	m := s.Metrics()
	assert.True(t, m.FreeBytes > 0 && m.SizeBytes >= m.FreeBytes && m.DiskBytes != 0 && m.Stalls == 0 && m.StallSeconds == 0, "metrics %+v", m)
}

// A write that waits until a flush makes room is counted, with its time.
func TestStallsAreCounted(t *testing.T) {
	flush := make(chan struct{})
	fs := inject(vfs.NewMem(), func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-flush
		}
		return nil
	})
	s := open(t, fs, store.SmallMemTables)
	m := create(t, s, "m")
	done := make(chan error, 1)
	go func() {
		for n := uint64(1); n <= 100; n++ {
			r := storage.Record{First: n, Last: n, Data: make([]byte, 32<<10)}
			if err := m.Append(t.Context(), storage.Commit{Record: r}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for s.Metrics().Stalls == 0 {
		runtime.Gosched()
	}
	close(flush)
	require.NoError(t, <-done)
	got := s.Metrics()
	assert.Greater(t, got.StallSeconds, 0.0, "metrics %+v", got)
	closed(t, s)
}
