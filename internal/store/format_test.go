package store_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// unpacked is a copy of the directory that a server of a format left when it
// was killed. It had two models: golden, of 30 observations with ids, three
// pending predictions and a snapshot at 18; and other, of one observation.
func unpacked(t *testing.T, format string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", format+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(to, "data")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(to, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o750)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A directory of format 1 is read in full, and is of format 3 then. To look at
// it changes nothing.
func TestFormat1(t *testing.T) {
	dir := unpacked(t, "format1")
	const snapshot = 573
	inspected, waiting, err := store.Inspect(dir, store.Options{})
	if err != nil || waiting != nil {
		t.Fatal(err, waiting)
	}
	wantGolden(t, inspected, snapshot)
	closed(t, inspected)
	for range 2 {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantGolden(t, s, snapshot)
		closed(t, s)
	}
	wantFormat(t, dir, 3)
}

// A directory of format 4 belongs to a member of a cluster. The server was killed after a sync and one more
// observation of the model other. Only the log of Raft has this observation.
func TestFormat4(t *testing.T) {
	dir := unpacked(t, "format4")
	const snapshot, position = 2580, 36
	inspected, waiting, err := store.Inspect(dir, store.Options{})
	if err != nil || waiting != nil {
		t.Fatal(err, waiting)
	}
	wantGolden(t, inspected, snapshot)
	closed(t, inspected)
	for range 2 {
		s, err := store.Open(dir, store.Options{Member: true})
		if err != nil {
			t.Fatal(err)
		}
		wantGolden(t, s, snapshot)
		if id, err := s.Member(); err != nil || id != "b036dbc6dc76a0f24be7e3367c46d3fc" {
			t.Errorf("member %s, %v", id, err)
		}
		if p := s.Position(); p != (storage.Position{Index: position}) {
			t.Errorf("position %v", p)
		}
		closed(t, s)
	}
	wantFormat(t, dir, 4)
	raft, err := store.OpenRaftLog(filepath.Join(dir, store.RaftDirectory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if last, err := raft.LastIndex(); err != nil || last != 38 {
		t.Errorf("the log of Raft ends at %d, %v", last, err)
	}
	next, err := raft.Entry(position + 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command.Decode(next.Data); !errors.Is(err, command.ErrOlder) {
		t.Errorf("the next entry, of version 1: %v", err)
	}
	if err := raft.Close(); err != nil {
		t.Error(err)
	}
}

func wantFormat(t *testing.T, dir string, format byte) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(dir, "log"), &pebble.Options{
		FS: vfs.Default, FormatMajorVersion: pebble.FormatNewest, Logger: silent{},
	})
	if err != nil {
		t.Fatal(err)
	}
	version, closer, err := db.Get([]byte{'v'})
	if err != nil || !slices.Equal(version, []byte{0, 0, 0, format}) {
		t.Errorf("format %v, %v", version, err)
	}
	if err := errors.Join(closer.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

func wantGolden(t *testing.T, s *store.Store, snapshot int) {
	t.Helper()
	m, other := find(t, s, "golden"), find(t, s, "other")
	records := replayed(t, m)
	if len(records) != 30 || records[0].First != 1 || records[29].Last != 30 || len(records[29].Data) == 0 {
		t.Errorf("%d records", len(records))
	}
	if got := replayed(t, other); len(got) != 1 {
		t.Errorf("%d records of the other model", len(got))
	}
	var ids, waits []string
	if err := errors.Join(
		m.EachID(t.Context(), func(e storage.ID) error {
			if len(e.Value) == 0 || e.At.Year() < 2020 {
				return fmt.Errorf("id %+v", e)
			}
			ids = append(ids, e.ID)
			return nil
		}),
		m.EachWaiting(t.Context(), func(p storage.Prediction) error {
			if len(p.Value) == 0 || p.Expiry.Year() < 2020 {
				return fmt.Errorf("prediction %+v", p)
			}
			waits = append(waits, p.ID)
			return nil
		}),
	); err != nil {
		t.Error(err)
	}
	// The id of the last observation before the kill was not synced: recovery
	// derives it from the log.
	for n := 1; n <= 29; n++ {
		name := fmt.Sprint("obs-", n)
		if n > 24 {
			name = fmt.Sprint("wait-", n-24)
		}
		if !slices.Contains(ids, name) {
			t.Errorf("the id %s is not remembered", name)
		}
	}
	for _, name := range []string{"wait-7", "wait-8", "wait-9"} {
		if !slices.Contains(waits, name) {
			t.Errorf("the prediction %s does not wait", name)
		}
	}
	if m.CountWaiting() != int64(len(waits)) || other.CountWaiting() != 0 {
		t.Errorf("%d counted, %d wait", m.CountWaiting(), len(waits))
	}
	kept, err := m.Snapshots()
	if err != nil || !slices.Equal(kept, []uint64{18}) {
		t.Errorf("snapshots %v, %v", kept, err)
	}
	if data, err := m.ReadSnapshot(18); err != nil || len(data) != snapshot {
		t.Errorf("a snapshot of %d bytes, %v", len(data), err)
	}
	s.Verify(func(problem error) {
		t.Error(problem)
	}, nil)
}
