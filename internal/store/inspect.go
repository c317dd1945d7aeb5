package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// ErrNotThere says that a directory holds no store.
var ErrNotThere = errors.New("not a data directory")

// Inspect opens a data directory to be looked at: nothing in it is changed, not
// even cleaned up. The predictions that wait may be beyond reading, which is
// then told and leaves the rest to be looked at. It fails with ErrNotThere, and
// with ErrInUse while another process has the directory open.
func Inspect(dir string, o Options) (_ *Store, waiting error, err error) {
	s := &Store{fs: o.FS, dir: dir, log: zap.NewNop(), guard: newGuard(), stop: make(chan struct{})}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	for _, name := range []string{"LOCK", logDirectory} {
		if _, err := s.fs.Stat(s.path(name)); errors.Is(err, os.ErrNotExist) {
			return nil, nil, fmt.Errorf("%w: %s has no %s", ErrNotThere, dir, name)
		} else if err != nil {
			return nil, nil, fmt.Errorf("store: %w", err)
		}
	}
	if err := s.lockDirectory(); err != nil {
		return nil, nil, err
	}
	s.cache = pebble.NewCache(cacheBytes)
	s.readOnly = true
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.logDB, err = s.openDB(logDirectory, false, logMemTable); err != nil {
		return nil, nil, err
	}
	if err := s.checkVersion(); err != nil {
		return nil, nil, err
	}
	s.pendingDB, waiting = s.openDB(pendingDirectory, false, pendingMemTable)
	return s, waiting, nil
}

// Verify reads all that the databases hold and calls f for what is not what
// was written. It fails when they cannot be read at all.
func (s *Store) Verify(f func(problem error)) {
	for _, db := range []struct {
		*database
		name     string
		families []byte
	}{
		{s.logDB, logDirectory, []byte{familyVersion, familyNumber, familyRegistry, familyLog, familySeen, familySeenAge}},
		{s.pendingDB, pendingDirectory, []byte{familyPending, familyExpiry}},
	} {
		if db.database == nil {
			continue
		}
		if err := db.CheckLevels(nil); err != nil {
			f(fmt.Errorf("tables of %s: %w", db.name, err))
		}
		for _, family := range db.families {
			err := scan(db.database, []byte{family}, []byte{family + 1}, func([]byte, []byte) (bool, error) { return true, nil })
			if err != nil {
				f(fmt.Errorf("keys %q of %s: %w", family, db.name, err))
			}
		}
	}
}

// EachSeen calls f for what a model remembers under every id.
func (s *Store) EachSeen(m Model, f func(id string, value []byte) error) error {
	lower, upper := modelRange(familySeen, m)
	return scan(s.logDB, lower, upper, func(k, v []byte) (bool, error) {
		_, value, err := splitTimed(v)
		if err != nil {
			return false, err
		}
		return true, f(string(k[9:]), value)
	})
}

// EachPending calls f for every prediction of a model that waits.
func (s *Store) EachPending(m Model, f func(id string, value []byte) error) error {
	if s.pendingDB == nil {
		return nil
	}
	lower, upper := modelRange(familyPending, m)
	return scan(s.pendingDB, lower, upper, func(k, v []byte) (bool, error) {
		_, value, err := splitTimed(v)
		if err != nil {
			return false, err
		}
		return true, f(string(k[9:]), value)
	})
}

// SetSnapshotAside renames a snapshot, so that it is none any more.
func (s *Store) SetSnapshotAside(m Model, sequence uint64) (name string, err error) {
	from := s.snapshotPath(m, sequence)
	name = from + damagedSuffix
	if err := s.fs.Rename(from, name); err != nil {
		return "", fmt.Errorf("store: put a snapshot aside: %w", err)
	}
	return name, s.syncDirectory(s.path(snapshots, number(m)))
}

// SnapshotName is the file of a snapshot.
func (s *Store) SnapshotName(m Model, sequence uint64) string { return s.snapshotPath(m, sequence) }
