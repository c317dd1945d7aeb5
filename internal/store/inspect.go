package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// ErrNotThere says that the directory holds no store.
var ErrNotThere = errors.New("not a data directory")

// ErrPending says that only the pending predictions are damaged. Open sets them aside.
var ErrPending = errors.New("the pending predictions are damaged")

// Inspect opens a data directory for reading: it changes nothing and removes nothing. If the
// pending predictions are unreadable, pending says why, and the store has none. Inspect fails
// with ErrNotThere, with ErrSwapping, and with ErrInUse while another process has the directory open.
func Inspect(dir string, o Options) (_ *Store, pending error, err error) {
	o.Logger = nil
	s := newStore(dir, o)
	if err := s.checkThere(lockFile); err != nil {
		return nil, nil, err
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
	async := false
	err = inOrder(
		s.checkFormat,
		// This check comes first, because an interrupted swap may have removed the log.
		func() error { return s.forbid(s.path(incomingDirectory, completeFile), ErrSwapping) },
		func() error { return s.checkThere(logDirectory) },
		func() error { return s.checkOptions(o.Restoring, true) },
		func() (err error) { async, err = s.exists(s.path(asyncMarker)); return err },
		func() error { return s.checkTail(logDirectory, async) },
		func() (err error) {
			s.cache = pebble.NewCache(cacheBytes)
			s.logDB, err = s.openDB(logDirectory, false, logMemTable)
			return err
		},
	)
	if err != nil {
		return nil, nil, err
	}
	if pending = s.checkTail(pendingDirectory, true); pending == nil {
		s.pendingDB, pending = s.openDB(pendingDirectory, false, pendingMemTable)
	}
	if _, err := s.loadRegistry(); err != nil {
		return nil, nil, err
	}
	if err := s.loadPosition(); err != nil {
		return nil, nil, err
	}
	if _, err := s.count(); err != nil {
		// Verify finds the cause; an inspection needs no counts.
		s.remembered.Store(0)
	}
	return s, pending, nil
}

func (s *Store) checkThere(name string) error {
	exists, err := s.exists(s.path(name))
	if err == nil && !exists {
		return fmt.Errorf("%w: %s has no %s", ErrNotThere, s.dir, name)
	}
	return err
}

// Verified is the progress of Verify.
type Verified struct {
	Records, Bytes int64
}

const verifiedEvery = 16 << 10

// Verify reads both databases and calls f for each damaged part, with ErrPending for parts of
// pending. Verify reports its progress to tell, which may be nil.
func (s *Store) Verify(f func(problem error), tell func(Verified)) {
	var at Verified
	for _, db := range []struct {
		*database
		name     string
		families []byte
	}{
		{s.logDB, logDirectory, []byte{familyNumber, familyRegistry, familyRewind, familyAlias, familyPosition, familyPart, familyLog, familyID, familyIDAge}},
		{s.pendingDB, pendingDirectory, []byte{familyPending, familyExpiry}},
	} {
		if db.database == nil {
			continue
		}
		f := func(problem error) {
			if db.name == pendingDirectory {
				problem = fmt.Errorf("%w: %w", ErrPending, problem)
			}
			f(problem)
		}
		if err := db.CheckLevels(nil); err != nil {
			f(fmt.Errorf("tables of %s: %w", db.name, err))
		} else if err := s.checkBlocks(db.database, db.name); err != nil {
			f(err)
		}
		for _, family := range db.families {
			err := db.scan([]byte{family}, []byte{family + 1}, func(k, v []byte) (bool, error) {
				at.Records++
				at.Bytes += int64(len(k) + len(v))
				if tell != nil && at.Records%verifiedEvery == 0 {
					tell(at)
				}
				return true, nil
			})
			if err != nil {
				f(fmt.Errorf("keys %q of %s: %w", family, db.name, err))
			}
		}
	}
}

// checkBlocks reads every block of the tables. A scan does not read filters.
func (s *Store) checkBlocks(db *database, directory string) error {
	levels, err := db.SSTables()
	if err != nil {
		return fmt.Errorf("list the tables of %s: %w", directory, err)
	}
	for _, tables := range levels {
		for n := range tables {
			path := s.path(directory, tables[n].BackingSSTNum.String()+".sst")
			if err := s.checkTable(path, db.tables); err != nil {
				return fmt.Errorf("table %s: %w", path, err)
			}
		}
	}
	return nil
}

func (s *Store) checkTable(path string, o sstable.ReaderOptions) error {
	f, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	table, err := sstable.NewReader(context.Background(), readable, o)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}
