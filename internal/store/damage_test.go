package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/store"
)

// tamper changes the log database behind the store's back.
func tamper(t *testing.T, fs vfs.FS, change func(db *pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open("data/log", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// numbered is a key of a family and numbers.
func numbered(family byte, numbers ...uint64) []byte {
	k := []byte{family}
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// A bad record stops the replay, which names it; so does a missing one.
func TestDamagedRecords(t *testing.T) {
	third := numbered('l', 1, 3)
	for name, damage := range map[string]struct {
		change   func(db *pebble.DB, value []byte) error
		sequence uint64
	}{
		"a flipped bit": {func(db *pebble.DB, v []byte) error {
			v[len(v)-1] ^= 1
			return db.Set(third, v, pebble.Sync)
		}, 3},
		"cut short": {func(db *pebble.DB, v []byte) error { return db.Set(third, v[:5], pebble.Sync) }, 3},
		"another first sequence": {func(db *pebble.DB, v []byte) error {
			v[7] = 9
			return db.Set(third, v, pebble.Sync)
		}, 3},
		"moved":   {func(db *pebble.DB, v []byte) error { return db.Set(numbered('l', 1, 4), v, pebble.Sync) }, 4},
		"missing": {func(db *pebble.DB, _ []byte) error { return db.Delete(third, pebble.Sync) }, 3},
		"a long key": {func(db *pebble.DB, v []byte) error {
			return db.Set(append(bytes.Clone(third), 0), v, pebble.Sync)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, fs)
			m := create(t, s, "m")
			appended(t, s, m, record(1), record(2), record(3), record(4))
			closed(t, s)
			tamper(t, fs, func(db *pebble.DB) error {
				v, closer, err := db.Get(third)
				if err != nil {
					return err
				}
				v = bytes.Clone(v)
				return errors.Join(closer.Close(), damage.change(db, v))
			})
			s = open(t, fs)
			defer closed(t, s)
			var corrupt *store.CorruptError
			err := s.Replay(m, 0, func(store.Record) error { return nil })
			if !errors.As(err, &corrupt) || corrupt.Sequence != damage.sequence || corrupt.Model != m {
				t.Errorf("%v, want sequence %d", err, damage.sequence)
			}
		})
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	closed(t, open(t, fs))
	tamper(t, fs, func(db *pebble.DB) error {
		return db.Set([]byte{'v'}, binary.BigEndian.AppendUint32(nil, 2), pebble.Sync)
	})
	if _, err := store.Open("data", store.Options{FS: fs}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("opened with %v", err)
	}
}

// What a crash in the middle of DeleteModel leaves is gone when the directory
// is opened again, and not counted.
func TestLeftoversOfADeletedModel(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	gone, stays := create(t, s, "gone"), create(t, s, "stays")
	for n := range 1000 {
		for _, m := range []store.Model{gone, stays} {
			id := strconv.Itoa(n)
			if err := errors.Join(
				s.PutSeen(m, time.Unix(int64(n), 0), []store.Seen{{ID: id}}),
				s.PutPending(m, []store.Pending{{ID: id, Expiry: time.Unix(int64(n), 0)}}),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.WriteSnapshot(gone, 1, nil); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	tamper(t, fs, func(db *pebble.DB) error { return db.Delete([]byte("rgone"), pebble.Sync) })
	s = open(t, fs)
	if got := s.Metrics().RememberedIDs; got != 1000 {
		t.Errorf("%d ids counted, want 1000", got)
	}
	for m, want := range map[store.Model]int{gone: 0, stays: 1000} {
		waits, err := s.CountPending()
		_, seen, err2 := s.GetSeen(m, "7")
		if err := errors.Join(err, err2); err != nil || waits[m] != want || seen != (want > 0) {
			t.Errorf("model %d: %d wait, seen %v, %v", m, waits[m], seen, err)
		}
	}
	if snapshots, err := s.Snapshots(gone); err != nil || len(snapshots) > 0 {
		t.Errorf("snapshots %v, %v", snapshots, err)
	}
	if err := s.DeleteModel("stays"); err != nil {
		t.Fatal(err)
	}
	if got := s.Metrics().RememberedIDs; got != 0 {
		t.Errorf("%d ids counted, want none", got)
	}
	closed(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	tamper(t, fs, func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{'a'}, UpperBound: []byte{'a' + 1}})
		if err != nil {
			return err
		}
		if it.First() {
			t.Errorf("left in the index: %q", it.Key())
		}
		return it.Close()
	})
}

// Sweeps work in portions; several are needed here, and nothing is left out.
func TestSweepsOfMany(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer closed(t, s)
	m := create(t, s, "m")
	const many = 2000
	var seen []store.Seen
	var pending []store.Pending
	for n := range many {
		seen = append(seen, store.Seen{ID: strconv.Itoa(n)})
		pending = append(pending, store.Pending{ID: strconv.Itoa(n), Expiry: time.Unix(int64(n), 0)})
	}
	if err := errors.Join(s.PutSeen(m, time.Unix(5, 0), seen), s.PutPending(m, pending)); err != nil {
		t.Fatal(err)
	}
	expired := map[string]bool{}
	first, err := s.ExpirePending(time.Unix(many-11, 0), 700, func(_ store.Model, id string) { expired[id] = true })
	if err != nil || first != 700 {
		t.Errorf("first sweep: %d, %v", first, err)
	}
	rest, err := s.ExpirePending(time.Unix(many-11, 0), many, func(_ store.Model, id string) { expired[id] = true })
	if err != nil || rest != many-10-700 || len(expired) != many-10 {
		t.Errorf("second sweep: %d, %v; %d expired", rest, err, len(expired))
	}
	forgotten, err := s.ForgetSeen(time.Unix(6, 0), 100, 10*many)
	if err != nil || forgotten != many-100 || s.Metrics().RememberedIDs != 100 {
		t.Errorf("forgot %d, %v; %d left", forgotten, err, s.Metrics().RememberedIDs)
	}
}

// A directory that cannot be locked for another reason than another process
// is not said to be in use.
func TestLockErrors(t *testing.T) {
	mem := vfs.NewMem()
	denied := &fs.PathError{Op: "open", Path: "data/LOCK", Err: fs.ErrPermission}
	_, err := store.Open("data", store.Options{FS: noLock{mem, denied}})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrInUse) {
		t.Errorf("opened with %v", err)
	}
	s := open(t, mem)
	defer closed(t, s)
	if _, err := store.Open("data", store.Options{FS: mem}); !errors.Is(err, store.ErrInUse) ||
		!strings.HasPrefix(err.Error(), "store: data directory data is in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
}

type noLock struct {
	vfs.FS
	err error
}

func (f noLock) Lock(string) (io.Closer, error) { return nil, f.err }
