package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

type database struct {
	*pebble.DB
	fs    *guardFS
	guard *guard
	// memory bounds the memory tables, in bytes. Pebble flushes from half a table on.
	memory uint64
	// looked is fs.rotations when the backlog of flushes and compactions was last small
	// enough. A call that measures the backlog holds the one slot of looking.
	looked  atomic.Int64
	looking chan struct{}
	// stalls counts the calls that waited in room, stalled their nanoseconds.
	stalls, stalled atomic.Int64
	// damaged is closed when the database turns out damaged, replaced when another database
	// has its place.
	damaged, replaced chan struct{}
	damageOnce        sync.Once
	// cause is the damage, once damaged is closed.
	cause  error
	tables sstable.ReaderOptions
}

var errDamaged = errors.New("the database is damaged and is set aside")

func (db *database) damage(cause error) {
	db.damageOnce.Do(func() {
		db.cause = cause
		close(db.damaged)
	})
}

func (db *database) isDamaged() bool {
	select {
	case <-db.damaged:
		return true
	default:
		return false
	}
}

// room waits while flushes and compactions are behind, or until ctx ends. Pebble would wait
// with its locks held, and for ever if they fail. The backlog of flushes grows only with a new
// write-ahead log, so most calls compare two numbers and return.
func (db *database) room(ctx context.Context) error {
	if db.looked.Load() == db.fs.rotations.Load() {
		return db.guard.err()
	}
	select {
	case db.looking <- struct{}{}:
	case <-ctx.Done():
		return waited(ctx)
	}
	defer func() { <-db.looking }()
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
			db.stalls.Add(1)
			began := time.Now() //nolint:forbidigo // A duration for the metrics; nothing depends on it.
			defer func() { db.stalled.Add(int64(time.Since(began))) }()
		}
		select {
		case <-again.C:
		case <-db.guard.failed:
		case <-db.damaged:
			return errDamaged
		case <-ctx.Done():
			return waited(ctx)
		}
	}
}

func waited(ctx context.Context) error {
	return fmt.Errorf("wait for flushes and compactions: %w", context.Cause(ctx))
}

// close closes the database. After a rejected write close drops Pebble's errors.
func (db *database) close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: close: %v", p)
		}
		if db.guard.err() != nil {
			err = nil
		}
	}()
	err = db.Close()
	if db.fs.mark != nil {
		err = errors.Join(err, db.fs.mark.file.Close())
	}
	return failed("close", err)
}

// commit commits one batch, without room. It returns nil only if no write had failed by its
// end; Pebble does not report that, see guard. Commit closes a committed batch, so that Pebble
// reuses its memory.
func (db *database) commit(o *pebble.WriteOptions, fill func(*pebble.Batch) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = db.guard.fail(fmt.Errorf("commit: %v", p))
		}
	}()
	b := db.NewBatch()
	if err := fill(b); err != nil {
		return errors.Join(err, b.Close())
	}
	if b.Empty() {
		return b.Close()
	}
	if err := b.Commit(o); err != nil {
		return db.guard.fail(err)
	}
	if err := db.guard.err(); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("close a batch: %w", err)
	}
	return nil
}

// commitSynced is commit with a sync, except in a lazy database.
func (db *database) commitSynced(fill func(*pebble.Batch) error) error {
	return db.commit(pebble.Sync, fill)
}

func (db *database) commitUnsynced(fill func(*pebble.Batch) error) error {
	return db.commit(pebble.NoSync, fill)
}

// commitDurably is commit with a sync, also in a lazy database.
func (db *database) commitDurably(fill func(*pebble.Batch) error) error {
	if err := db.commit(pebble.Sync, fill); err != nil || !db.fs.lazy {
		return err
	}
	return db.fs.syncLogs()
}

// force syncs what was written so far, also in a lazy database.
func (db *database) force() error {
	// The empty commit hands over what is in the process's memory.
	if err := db.commit(pebble.Sync, func(b *pebble.Batch) error { return b.LogData([]byte{0}, nil) }); err != nil {
		return err
	}
	return db.fs.syncLogs()
}

func (db *database) get(key []byte) (value []byte, ok bool, err error) {
	ok, err = db.view(key, func(v []byte) { value = append([]byte{}, v...) })
	return value, ok, err
}

// timeOf returns the time in the value of a row, -1 if the row is too short. The
// result ok says that the row exists.
func (db *database) timeOf(key []byte) (at int64, ok bool, err error) {
	ok, err = db.view(key, func(v []byte) {
		if stored, _, err := splitTimed(v); err == nil {
			at = stored
		} else {
			at = -1
		}
	})
	return at, ok, err
}

// view calls f with the value of a key, valid during the call. The result ok says that the key exists.
func (db *database) view(key []byte, f func(value []byte)) (ok bool, err error) {
	v, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		f(v)
		err = closer.Close()
	}
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	return true, nil
}

// scan calls f for every key from lower to below upper, until f returns false. Scan returns
// errors of f unchanged.
func (db *database) scan(lower, upper []byte, f func(key, value []byte) (bool, error)) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("scan: %w", closeErr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if more, err := f(it.Key(), value); err != nil || !more {
			return err
		}
	}
	return nil
}

// last returns the last key from lower to below upper and the size of its value, a nil key without one.
func (db *database) last(lower, upper []byte) (key []byte, size int, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, 0, fmt.Errorf("scan: %w", err)
	}
	if it.Last() {
		value := it.LazyValue()
		key, size = bytes.Clone(it.Key()), value.Len()
	}
	if err := it.Close(); err != nil {
		return nil, 0, fmt.Errorf("scan: %w", err)
	}
	return key, size, nil
}

// walk calls f for every key from lower to below upper, until f fails or ctx ends. Walk returns
// errors of f unchanged, other errors through failed.
func (db *database) walk(ctx context.Context, lower, upper []byte, f func(key, value []byte) error, failed func(error) error) error {
	var stop error
	err := db.scan(lower, upper, func(k, v []byte) (bool, error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		stop = f(k, v)
		return stop == nil, nil
	})
	if stop != nil {
		return stop
	}
	return failed(err)
}
