package store_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
