// Package store keeps what must outlive the process: the registry of models,
// their logs, the ids they remember, the predictions that wait for labels, and
// snapshots. Values are opaque bytes. It is the only package that touches the
// disk. The file docs/format/store.md describes every key.
//
// Two Pebble databases share the data directory. `log` holds what has been
// acknowledged; a write to its log is synced before it returns. `pending`
// holds predictions that wait for their labels; a write to its log is handed
// to the operating system before it returns, and synced in the background, so
// that Predict survives a killed process without waiting for the disk.
package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// Sentinels. What the disk refuses wraps ErrFailed.
var (
	ErrModelExists   = errors.New("store: model exists")
	ErrModelNotFound = errors.New("store: no such model")
	ErrInvalidID     = errors.New("store: id too long")
	ErrSequence      = errors.New("store: record out of sequence")
	ErrInUse         = errors.New("store: data directory is in use by another process")
	ErrNewer         = errors.New("store: data directory was written by a newer version")
	// ErrFailed says that the disk refused a write. Nothing is acknowledged
	// after it; the store has to be opened again.
	ErrFailed = errors.New("store: storage failed")
)

// CorruptError says which record of a log is not what was written.
type CorruptError struct {
	Model    Model
	Sequence uint64
	Detail   string
}

// Error names the model's number, the sequence and what is wrong.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("store: log of model number %d at sequence %d: %s", e.Model, e.Sequence, e.Detail)
}

// Options of a store.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Async acknowledges an Append before it is synced, and syncs within
	// 100 ms.
	Async bool
	// PendingSync syncs every PutPending before it returns.
	PendingSync bool
	// Logger may be nil.
	Logger *zap.Logger
}

const (
	cacheBytes       = 32 << 20
	logMemTable      = 16 << 20
	pendingMemTable  = 8 << 20
	asyncInterval    = 100 * time.Millisecond
	pendingInterval  = time.Second
	bloomBitsPerKey  = 10
	maxIDBytes       = 128
	formatVersion    = 1
	directoryMode    = 0o750
	logDirectory     = "log"
	pendingDirectory = "pending"
	snapshots        = "snapshots"
)

// Store is open over one data directory. Its methods may be called by any
// number of goroutines, but one model has one appender at a time.
type Store struct {
	fs   vfs.FS
	dir  string
	log  *zap.Logger
	lock io.Closer

	logDB, pendingDB *pebble.DB
	logFS, pendingFS *syncFS
	failure          failure

	registry sync.Mutex
	// last is the newest sequence of each model that was asked for.
	last sync.Map
	// remembered counts the entries of the age index.
	remembered atomic.Int64

	stop    chan struct{}
	syncers sync.WaitGroup
}

// Model is a model's number. A model deleted and created again under its name
// gets another, so that nothing of the old one can be taken for the new one's.
type Model uint64

// Open opens the data directory, creating it when it is not there. It fails
// with ErrInUse while another process has it open.
func Open(dir string, o Options) (_ *Store, err error) {
	s := &Store{fs: o.FS, dir: dir, log: o.Logger, stop: make(chan struct{})}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeFiles())
		}
	}()
	if err := s.makeDirectories(); err != nil {
		return nil, err
	}
	if s.lock, err = s.fs.Lock(s.fs.PathJoin(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInUse, dir, err)
	}
	s.logFS = newSyncFS(s.fs, o.Async)
	s.pendingFS = newSyncFS(s.fs, !o.PendingSync)
	if s.logDB, err = s.openDB(logDirectory, s.logFS, logMemTable); err != nil {
		return nil, err
	}
	if err := s.checkVersion(); err != nil {
		return nil, err
	}
	if s.pendingDB, err = s.openPending(); err != nil {
		return nil, err
	}
	if err := s.clean(); err != nil {
		return nil, err
	}
	if err := s.countSeen(); err != nil {
		return nil, err
	}
	if o.Async {
		s.syncEvery(asyncInterval, s.logDB, s.logFS)
	}
	if !o.PendingSync {
		s.syncEvery(pendingInterval, s.pendingDB, s.pendingFS)
	}
	return s, nil
}

func (s *Store) makeDirectories() error {
	for _, d := range []string{s.dir, s.path(snapshots)} {
		if err := s.fs.MkdirAll(d, directoryMode); err != nil {
			return fmt.Errorf("store: create %s: %w", d, err)
		}
	}
	for _, d := range []string{s.fs.PathDir(s.dir), s.dir} {
		if err := s.syncDirectory(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) path(elements ...string) string {
	return s.fs.PathJoin(append([]string{s.dir}, elements...)...)
}

func (s *Store) syncDirectory(path string) error {
	d, err := s.fs.OpenDir(path)
	if err != nil {
		return fmt.Errorf("store: open directory %s: %w", path, err)
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("store: sync directory %s: %w", path, err)
	}
	return nil
}

func (s *Store) openDB(name string, fs vfs.FS, memTable uint64) (*pebble.DB, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // The database holds its own reference.
	options := &pebble.Options{
		FS: fs, Cache: cache, MemTableSize: memTable,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             &pebbleLog{log: s.log.Named(name), failure: &s.failure},
	}
	for n := range options.Levels {
		options.Levels[n].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	db, err := pebble.Open(s.path(name), options)
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", s.path(name), err)
	}
	if err := s.syncDirectory(s.dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openPending opens the pending predictions. What a power cut left of a log
// that was not synced may be damaged; nothing in it was acknowledged as
// learned, so it is put aside rather than keeping the server from starting.
func (s *Store) openPending() (*pebble.DB, error) {
	db, err := s.openDB(pendingDirectory, s.pendingFS, pendingMemTable)
	if err == nil || !pebble.IsCorruptionError(err) {
		return db, err
	}
	for n := 1; ; n++ {
		aside := pendingDirectory + ".damaged-" + strconv.Itoa(n)
		if _, statErr := s.fs.Stat(s.path(aside)); statErr == nil {
			continue
		}
		s.log.Error("pending predictions are damaged and put aside: labels that come for them are not found",
			zap.String("directory", s.path(aside)), zap.Error(err))
		if renameErr := s.fs.Rename(s.path(pendingDirectory), s.path(aside)); renameErr != nil {
			return nil, fmt.Errorf("store: put damaged predictions aside: %w", errors.Join(renameErr, err))
		}
		return s.openDB(pendingDirectory, s.pendingFS, pendingMemTable)
	}
}

// checkVersion refuses a directory of a newer format and marks a new one.
func (s *Store) checkVersion() error {
	value, ok, err := get(s.logDB, []byte{familyVersion})
	if err != nil {
		return err
	}
	if !ok {
		return s.write(s.logDB, pebble.Sync, func(b *pebble.Batch) error {
			return b.Set([]byte{familyVersion}, binary.BigEndian.AppendUint32(nil, formatVersion), nil)
		})
	}
	if len(value) != 4 {
		return fmt.Errorf("store: format version of %d bytes, want 4", len(value))
	}
	if v := binary.BigEndian.Uint32(value); v > formatVersion {
		return fmt.Errorf("%w: format %d, this version reads up to %d", ErrNewer, v, formatVersion)
	}
	return nil
}

// syncEvery syncs a database's log in the background, when it has changed.
func (s *Store) syncEvery(interval time.Duration, db *pebble.DB, fs *syncFS) {
	s.syncers.Add(1)
	go func() {
		defer s.syncers.Done()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
			}
			if !fs.dirty.Swap(false) {
				continue
			}
			if err := s.force(db, fs); err != nil {
				s.log.Error("background sync failed", zap.Error(err))
			}
		}
	}()
}

// force syncs everything written to a database so far.
func (s *Store) force(db *pebble.DB, fs *syncFS) error {
	fs.forced.Add(1)
	defer fs.forced.Add(-1)
	return s.write(db, pebble.Sync, func(b *pebble.Batch) error { return b.LogData([]byte{0}, nil) })
}

// Sync makes everything written so far durable.
func (s *Store) Sync() error {
	if err := s.force(s.logDB, s.logFS); err != nil {
		return err
	}
	return s.force(s.pendingDB, s.pendingFS)
}

// Close syncs, joins every goroutine of the store and closes its files.
func (s *Store) Close() error {
	close(s.stop)
	s.syncers.Wait()
	var err error
	if s.Failed() == nil {
		err = s.Sync()
	}
	return errors.Join(err, s.closeFiles())
}

func (s *Store) closeFiles() error {
	var failures []error
	for _, db := range []*pebble.DB{s.pendingDB, s.logDB} {
		if db != nil {
			failures = append(failures, closeDB(db))
		}
	}
	if s.lock != nil {
		failures = append(failures, s.lock.Close())
	}
	return errors.Join(failures...)
}

// closeDB closes a database, which may panic after the disk has failed.
func closeDB(db *pebble.DB) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: close: %v", p)
		}
	}()
	if err := db.Close(); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// Failed is why nothing can be written any more, nil while all is well.
func (s *Store) Failed() error { return s.failure.get() }

// write commits one batch. After a failed write Pebble's own state cannot be
// relied on, so nothing more is handed to it.
func (s *Store) write(db *pebble.DB, o *pebble.WriteOptions, fill func(*pebble.Batch) error) (err error) {
	if err := s.Failed(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = s.failure.set(fmt.Sprint(p))
		}
	}()
	b := db.NewBatch()
	if err := fill(b); err != nil {
		return fmt.Errorf("store: fill a batch: %w", err)
	}
	if err := b.Commit(o); err != nil {
		return s.failure.set(err.Error())
	}
	// A failed commit is told to the logger alone: Pebble expects the
	// process to end there.
	if err := s.Failed(); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("store: close a batch: %w", err)
	}
	return nil
}

// get copies a value out.
func get(db *pebble.DB, key []byte) (value []byte, ok bool, err error) {
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
func scan(db *pebble.DB, lower, upper []byte, f func(key, value []byte) (bool, error)) (err error) {
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
