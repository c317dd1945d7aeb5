package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// database is one Pebble database over its guarded files.
type database struct {
	*pebble.DB
	fs    *guardFS
	guard *guard
	// memory bounds the memory tables. Pebble flushes from half a table on,
	// however many small ones that are.
	memory uint64
	// looked is the count of write-ahead logs at the last look at what waits
	// to be flushed and compacted; looking is held during one.
	looked  atomic.Int64
	looking sync.Mutex
}

// room waits while flushes and compactions are behind. Pebble would do that
// too, but holding its locks, and without end when they fail. What waits to be
// flushed grows only when a write-ahead log is begun, so that mostly this is
// a comparison.
func (db *database) room() error {
	if db.looked.Load() == db.fs.rotations.Load() {
		return db.guard.err()
	}
	db.looking.Lock()
	defer db.looking.Unlock()
	var again *time.Ticker
	for {
		logs := db.fs.rotations.Load()
		if err := db.guard.err(); err != nil || db.looked.Load() == logs {
			return err
		}
		if m := db.Metrics(); m.MemTable.Size <= db.memory && m.Levels[0].Sublevels <= maxSublevels {
			db.looked.Store(logs)
			return nil
		}
		if again == nil {
			again = time.NewTicker(roomInterval)
			defer again.Stop()
		}
		select {
		case <-again.C:
		case <-db.guard.failed:
		}
	}
}

// close closes the database. Pebble finds faults with one that lost its disk,
// which then say nothing new.
func (db *database) close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: close: %v", p)
		}
		if db.guard.err() != nil {
			err = nil
		}
	}()
	if err := db.Close(); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// write commits one batch. It is acknowledged only if nothing had failed by
// its end: Pebble does not say so, see guard.
func (s *Store) write(db *database, o *pebble.WriteOptions, fill func(*pebble.Batch) error) (err error) {
	if err := db.room(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = s.guard.fail(fmt.Errorf("commit: %v", p))
		}
	}()
	b := db.NewBatch()
	if err := fill(b); err != nil {
		return errors.Join(fmt.Errorf("store: fill a batch: %w", err), b.Close())
	}
	if err := b.Commit(o); err != nil {
		return s.guard.fail(err)
	}
	if err := s.Failed(); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("store: close a batch: %w", err)
	}
	return nil
}

// get copies a value out.
func get(db *database, key []byte) (value []byte, ok bool, err error) {
	v, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("store: read: %w", err)
	}
	value = append([]byte{}, v...)
	if err := closer.Close(); err != nil {
		return nil, false, fmt.Errorf("store: read: %w", err)
	}
	return value, true, nil
}

// scan calls f for every key from lower to below upper, until f answers false.
func scan(db *database, lower, upper []byte, f func(key, value []byte) (bool, error)) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("store: scan: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("store: scan: %w", closeErr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("store: scan: %w", err)
		}
		if more, err := f(it.Key(), value); err != nil || !more {
			return err
		}
	}
	return nil
}
