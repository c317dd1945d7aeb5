package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

// ErrNotThere says that a directory holds no store.
var ErrNotThere = errors.New("not a data directory")

// Inspect opens a data directory to be looked at: nothing in it is changed, not
// even cleaned up. The predictions that wait may be unreadable: then waiting says
// why, and the store has none. It fails with ErrNotThere, and with ErrInUse while
// another process has the directory open.
func Inspect(dir string, o Options) (_ *Store, waiting error, err error) {
	o.Logger = nil
	s := newStore(dir, o)
	for _, name := range []string{lockFile, logDirectory} {
		if _, err := s.fs.Stat(s.path(name)); errors.Is(err, os.ErrNotExist) {
			return nil, nil, fmt.Errorf("%w: %s has no %s", ErrNotThere, dir, name)
		} else if err != nil {
			return nil, nil, fmt.Errorf("store: %w", err)
		}
	}
	if err := s.lockDirectory(); err != nil {
		return nil, nil, err
	}
	s.readOnly = true
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.checkRestored(o.Restoring); err != nil {
		return nil, nil, err
	}
	s.cache = pebble.NewCache(cacheBytes)
	if s.logDB, err = s.openDB(logDirectory, false, logMemTable); err != nil {
		return nil, nil, err
	}
	if err := s.checkVersion(); err != nil {
		return nil, nil, err
	}
	s.pendingDB, waiting = s.openDB(pendingDirectory, false, pendingMemTable)
	if _, err := s.loadRegistry(); err != nil {
		return nil, nil, err
	}
	if _, err := s.count(); err != nil {
		// An inspection does not need the counts. Verify finds the cause.
		s.remembered.Store(0)
	}
	return s, waiting, nil
}

// Verify reads all that the databases hold and calls f for each part that is
// damaged.
func (s *Store) Verify(f func(problem error)) {
	for _, db := range []struct {
		*database
		name     string
		families []byte
	}{
		{s.logDB, logDirectory, []byte{familyVersion, familyNumber, familyRegistry, familyRewind, familyAlias, familyLog, familyID, familyIDAge}},
		{s.pendingDB, pendingDirectory, []byte{familyWaiting, familyExpiry}},
	} {
		if db.database == nil {
			continue
		}
		if err := db.CheckLevels(nil); err != nil {
			f(fmt.Errorf("tables of %s: %w", db.name, err))
		}
		for _, family := range db.families {
			err := db.scan([]byte{family}, []byte{family + 1}, func([]byte, []byte) (bool, error) { return true, nil })
			if err != nil {
				f(fmt.Errorf("keys %q of %s: %w", family, db.name, err))
			}
		}
	}
}
