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
//
// The first write that the disk refuses ends the store's writing: the disk is
// left as it is, every later write fails with ErrFailed, and reads go on from
// what is in memory. Opening the directory again is the way on; see guard.
package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
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
	ErrInUse         = errors.New("in use by another process")
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
	// Async acknowledges an Append when it is written to the operating
	// system, and syncs within 100 ms: a killed process loses nothing, a
	// power cut the last moments, from the end.
	Async bool
	// Cache is for blocks and memory tables, in bytes; 0, as anything above it, is
	// 64 MiB. Tables that wait for the disk may take more.
	Cache int64
	// PendingSync syncs every PutPending before it returns.
	PendingSync bool
	// Logger may be nil.
	Logger *zap.Logger
	// memTable is the size of both databases' memory tables, in bytes; 0 is
	// each one's own. Tests make it small, so that flushes come early.
	memTable uint64
}

const (
	// What the memory tables take is taken from cacheBytes: with less, blocks that
	// are needed for every id would be read from the disk under load.
	cacheBytes      = 64 << 20
	logMemTable     = 16 << 20
	pendingMemTable = 8 << 20
	asyncInterval   = 100 * time.Millisecond
	pendingInterval = time.Second
	bloomBitsPerKey = 10
	maxIDBytes      = 128
	formatVersion   = 1
	directoryMode   = 0o750
	// The limits maxMemTables and maxSublevels are where writes wait for flushes and
	// compactions; see database.room.
	maxMemTables = 4
	maxSublevels = 20
	// The limit pebbleStop is where Pebble itself would block writes, holding its
	// locks: never.
	pebbleStop       = 1000
	roomInterval     = 5 * time.Millisecond
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

	cache            *pebble.Cache
	logDB, pendingDB *database
	guard            *guard
	// readOnly says that nothing may be changed.
	readOnly bool

	registry sync.Mutex
	// last is the newest sequence of each model that was asked for.
	last sync.Map
	// remembered counts the remembered ids.
	remembered atomic.Int64
	// seen and waiting keep the sweeps, which take them whole, from dropping
	// an id that is written again between their look at it and their commit.
	// No other lock is taken under them.
	seen, waiting sync.RWMutex

	stop       chan struct{}
	background sync.WaitGroup
	closeOnce  sync.Once
}

// Model is a model's number. A model deleted and created again under its name
// gets another, so that nothing of the old one can be taken for the new one's.
type Model uint64

// Open opens the data directory, creating it when it is not there, and cleans
// up what a crash left. It fails with ErrInUse while another process has it
// open, with ErrNewer on a later format, and with ErrFailed when the disk
// refuses a write. It reads the newest logs, and the index of remembered ids.
func Open(dir string, o Options) (_ *Store, err error) {
	s := &Store{fs: o.FS, dir: dir, log: o.Logger, guard: newGuard(), stop: make(chan struct{})}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.watch()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.makeDirectories(); err != nil {
		return nil, err
	}
	if err := s.lockDirectory(); err != nil {
		return nil, err
	}
	s.cache = pebble.NewCache(min(cmp.Or(o.Cache, cacheBytes), cacheBytes))
	if err := s.openDatabases(o); err != nil {
		return nil, err
	}
	s.guard.opening.Store(false)
	if err := s.clean(); err != nil {
		return nil, err
	}
	// Whatever was refused on the way, Pebble was not told.
	if err := s.Failed(); err != nil {
		return nil, err
	}
	if err := s.afterLog(o.Async); err != nil {
		return nil, err
	}
	if o.Async {
		s.syncEvery(asyncInterval, s.logDB.fs)
	}
	if !o.PendingSync {
		s.syncEvery(pendingInterval, s.pendingDB.fs)
	}
	return s, nil
}

// openDatabases opens both, the log first.
func (s *Store) openDatabases(o Options) (err error) {
	if err := s.beforeLog(o.Async); err != nil {
		return err
	}
	if s.logDB, err = s.openDB(logDirectory, o.Async, cmp.Or(o.memTable, logMemTable)); err != nil {
		return err
	}
	if err := s.checkVersion(); err != nil {
		return err
	}
	s.pendingDB, err = s.openPending(!o.PendingSync, cmp.Or(o.memTable, pendingMemTable))
	return err
}

// lockDirectory keeps other processes away. The lock ends with the process.
func (s *Store) lockDirectory() error {
	lock, err := s.fs.Lock(s.path("LOCK"))
	var path *iofs.PathError
	switch {
	case errors.As(err, &path): // The file could not even be made.
		return fmt.Errorf("store: create the lock: %w", err)
	case err != nil:
		return fmt.Errorf("store: data directory %s is %w: %w", s.dir, ErrInUse, err)
	}
	s.lock = lock
	return nil
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

func (s *Store) openDB(name string, lazy bool, memTable uint64) (*database, error) {
	out := &database{fs: newGuardFS(s.fs, s.guard, lazy), guard: s.guard, memory: maxMemTables * memTable}
	log := &pebbleLog{log: s.log.Named(name), guard: s.guard}
	options := &pebble.Options{
		FS: out.fs, Cache: s.cache, MemTableSize: memTable,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      log,
		EventListener:               log.events(),
		MemTableStopWritesThreshold: pebbleStop,
		L0StopWritesThreshold:       pebbleStop,
		ReadOnly:                    s.readOnly,
	}
	for n := range options.Levels {
		options.Levels[n].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	var err error
	if out.DB, err = pebble.Open(s.path(name), options); err != nil {
		return nil, fmt.Errorf("store: open %s: %w", s.path(name), err)
	}
	if s.readOnly {
		return out, nil
	}
	if err := s.syncDirectory(s.dir); err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

// openPending opens the pending predictions. A power cut may have damaged the
// end of a log that was not synced, which is cut off. What is damaged beyond
// that is put aside rather than keeping the server from starting: nothing in
// it was acknowledged as learned.
func (s *Store) openPending(lazy bool, memTable uint64) (*database, error) {
	if err := s.trimTail(pendingDirectory); err != nil {
		return nil, err
	}
	db, err := s.openDB(pendingDirectory, lazy, memTable)
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
		return s.openDB(pendingDirectory, lazy, memTable)
	}
}

// checkVersion refuses a directory of a newer format and marks a new one.
func (s *Store) checkVersion() error {
	value, ok, err := get(s.logDB, []byte{familyVersion})
	if err != nil {
		return err
	}
	if !ok && s.readOnly {
		return fmt.Errorf("%w: %s has no format version", ErrNotThere, s.dir)
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

// syncEvery syncs in the background what a database's logs are behind.
func (s *Store) syncEvery(interval time.Duration, logs *guardFS) {
	s.background.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
			}
			if logs.syncLogs() != nil {
				return // Told by watch.
			}
		}
	})
}

// force syncs everything written to a database so far.
func (s *Store) force(db *database) error {
	// The empty commit takes what waits in the process's memory along.
	if err := s.write(db, pebble.Sync, func(b *pebble.Batch) error { return b.LogData([]byte{0}, nil) }); err != nil {
		return err
	}
	return db.fs.syncLogs()
}

// Sync makes everything written so far durable, remembered ids and pending
// predictions too. It costs one sync for each database.
func (s *Store) Sync() error {
	if err := s.force(s.logDB); err != nil {
		return err
	}
	return s.force(s.pendingDB)
}

// Close syncs, joins every goroutine of the store and closes its files. Nobody
// may be using the store any more. Closed again, it does nothing.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		if s.logDB != nil && s.pendingDB != nil && !s.readOnly && s.Failed() == nil {
			err = s.Sync()
		}
		close(s.stop)
		close(s.guard.closing)
		s.background.Wait()
		err = errors.Join(err, s.closeFiles())
	})
	return err
}

func (s *Store) closeFiles() error {
	var failures []error
	for _, db := range []*database{s.pendingDB, s.logDB} {
		if db != nil {
			failures = append(failures, db.close())
		}
	}
	if s.cache != nil {
		s.cache.Unref()
	}
	if s.lock != nil {
		failures = append(failures, s.lock.Close())
	}
	return errors.Join(failures...)
}

// Failed is why nothing can be written any more, nil while all is well.
func (s *Store) Failed() error { return s.guard.err() }
