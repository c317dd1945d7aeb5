// Package store implements package storage on Pebble, in a directory. The directory has the
// registry of models, their logs, remembered ids, pending predictions and snapshots.
// Only this package touches the disk. The file docs/format/store.md describes every key.
//
// Two Pebble databases share the data directory. `log` holds what is acknowledged: a write
// syncs its write-ahead log before the write returns. `pending` holds the pending predictions:
// a write hands its write-ahead log to the operating system before the write returns, and a
// sync follows in the background. So a prediction survives a killed process, and Predict does
// not wait for the disk.
//
// The first write that the disk rejects ends all writing: the store leaves the disk as it is,
// every later write fails with storage.ErrFailed, and reads answer from memory. The directory
// has to be opened again; see guard.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// Sentinels of this backend. The sentinels of every backend are in package storage.
var (
	ErrInUse     = errors.New("in use by another process")
	ErrRestoring = errors.New("store: a restore into the data directory did not end: empty the directory and restore again")
	// ErrVersion: an older or a newer build wrote the directory.
	ErrVersion = errors.New("store: another build wrote the data directory")
)

// Options of a store.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Async acknowledges an Append when the operating system has it, and syncs within
	// 100 ms: a killed process loses nothing, a power cut loses the newest commits.
	// Creating, deleting and rewinding a model syncs all the same.
	Async bool
	// Cache is the size of blocks and memory tables, in bytes, at most 64 MiB; 0 is
	// 64 MiB. Unflushed tables may take more.
	Cache int64
	// Synced receives the seconds that each sync of a write-ahead log took. It may be nil.
	Synced func(seconds float64)
	// Restoring opens a directory with the file RestoringMark.
	Restoring bool
	Version   string
	// Member allows Open to open the directory of a member of a cluster.
	Member bool
	// PendingAside sets the pending predictions aside, as if they were damaged.
	PendingAside bool
	// Logger may be nil.
	Logger *zap.Logger
	// memTable is the size of the memory tables, in bytes; 0 is the default of each
	// database. Tests make it small, so that flushes come early.
	memTable uint64
	// filterRoom is the minimum room of the filter of ids, 0 for minRoom. Tests make it small, so that
	// the filter is renewed early.
	filterRoom int64
}

const (
	// The cache of cacheBytes includes the memory tables. With fewer bytes, lookups of ids read blocks
	// from the disk under load.
	cacheBytes      = 64 << 20
	logMemTable     = 16 << 20
	pendingMemTable = 8 << 20
	asyncInterval   = 100 * time.Millisecond
	pendingInterval = time.Second
	bloomBitsPerKey = 10
	directoryMode   = 0o750
	// A compaction of the log rewrites the tables of all models, so it waits for as many flushed tables above each other.
	// Pebble's default of 4 rewrites twice as many bytes. The pending predictions keep the default: their compactions find
	// damage that no read finds.
	compactedSublevels = 8
	// Above these limits writes wait for flushes and compactions; see database.room.
	maxMemTables = 4
	maxSublevels = 20
	// The limit pebbleStop is too large to be reached: there Pebble blocks writes with its locks held.
	pebbleStop       = 1000
	roomInterval     = 5 * time.Millisecond
	logDirectory     = "log"
	pendingDirectory = "pending"
	snapshots        = "snapshots"
	lockFile         = "LOCK"
)

// RestoringMark is a file of a data directory whose restore has not ended. Only the restore
// opens such a directory.
const RestoringMark = "restoring"

// Store is open over one data directory. It implements storage.Store.
type Store struct {
	directory
	logDB, pendingDB *database

	// pending guards pendingDB: users hold it shared, replacePending holds it exclusively.
	// A user may hold files and writing. replacePending holds no other lock.
	pending sync.RWMutex
	// format is the number of the directory's format, and the version of a program that reads it.
	format struct {
		sync.Mutex
		number  uint32
		version string
	}
	// aside is the directory that the pending predictions were last set aside as.
	aside atomic.Pointer[string]
	// mending: a goroutine waits for damage of pendingDB.
	mending bool

	// registry gives out names and numbers. The lock is held for a lookup and an unsynced
	// commit.
	registry struct {
		sync.Mutex
		newest uint64
		// making has the names of models under construction. end closes the channel.
		making map[string]chan struct{}
	}
	handles struct {
		sync.RWMutex
		byNumber map[uint64]*Model
	}
	// remembered counts the remembered ids of all models.
	remembered atomic.Int64
	// files guards what a checkpoint reads: a call that adds or removes snapshots, cuts a log
	// or ends an import holds files shared, a checkpoint exclusively. files is the first lock.
	files sync.RWMutex
	// ids keeps a sweep from dropping an id that is put again between the sweep's read and its
	// commit: sweeps hold ids exclusively.
	ids sync.RWMutex
	// filter has the remembered ids, pendingFilter the ids of the pending predictions.
	filter, pendingFilter filter
	// rows keeps the counts of pending predictions exact. Only handles is locked under it.
	rows         stripes
	puts         puts
	pendingCount atomic.Int64
	position     position

	stop       chan struct{}
	background sync.WaitGroup
	closeOnce  sync.Once
}

func newStore(dir string, o Options) *Store {
	s := &Store{directory: newDirectory(dir, o), stop: make(chan struct{})}
	s.registry.making = map[string]chan struct{}{}
	s.handles.byNumber = map[uint64]*Model{}
	s.rows.seed, s.filter.seed = maphash.MakeSeed(), maphash.MakeSeed()
	s.filter.minIDs = cmp.Or(o.filterRoom, minRoom)
	s.pendingFilter.seed, s.pendingFilter.minIDs = s.filter.seed, s.filter.minIDs
	return s
}

// Open opens the data directory, or creates it, and removes what a crash left. It fails with
// ErrInUse while another process has the directory open, with ErrVersion on another format, and
// with storage.ErrFailed if the disk rejects a write. Open reads the newest write-ahead logs,
// the registry, the index of remembered ids and the pending predictions.
func Open(dir string, o Options) (_ *Store, err error) {
	s := newStore(dir, o)
	s.watch()
	defer func() {
		if err == nil {
			return
		}
		// Pebble does not know of a rejected write and reports missing data as damage.
		if failed := s.Failed(); failed != nil {
			err = failed
		}
		err = errors.Join(err, s.Close())
	}()
	err = inOrder(
		s.checkFormat, s.makeDirectories, s.lockDirectory,
		func() error { return s.checkOptions(o.Restoring, o.Member) },
		s.RemoveCheckpoint,
		func() error { return s.beginFormat(o.Member, o.Version) },
		s.swapIncoming, s.beginIdentity,
		func() error { return s.beforeLog(o.Async) },
		func() error { return s.openDatabases(o) },
	)
	if err == nil {
		err = s.load()
	}
	if err == nil {
		err = inOrder(s.Failed, func() error { return s.afterLog(o.Async) })
	}
	if err != nil {
		return nil, err
	}
	if o.Async {
		s.syncEvery(asyncInterval, s.logDB.fs.syncLogs)
	}
	s.syncEvery(pendingInterval, s.syncPending)
	return s, nil
}

// inOrder calls steps until one fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) openDatabases(o Options) (err error) {
	s.cache = pebble.NewCache(min(cmp.Or(o.Cache, cacheBytes), cacheBytes))
	if s.logDB, err = s.openDB(logDirectory, o.Async, cmp.Or(o.memTable, logMemTable)); err != nil {
		return err
	}
	err = s.openPending(cmp.Or(o.memTable, pendingMemTable), o.PendingAside)
	s.guard.opening.Store(err != nil)
	return err
}

// checkOptions rejects the directory of an unfinished restore, and the directory of a member of a cluster, unless the
// caller opens it as one.
func (s *Store) checkOptions(restoring, member bool) (err error) {
	if !restoring {
		err = s.forbid(s.path(RestoringMark), ErrRestoring)
	}
	if err == nil && !member {
		err = s.forbid(s.path(memberFile), ErrMember)
	}
	return err
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

// syncEvery calls sync in the background, until sync fails or the store closes.
func (s *Store) syncEvery(interval time.Duration, sync func() error) {
	s.background.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
			}
			if sync() != nil {
				return // The guard keeps the error, and watch logs it.
			}
		}
	})
}

// Sync implements storage.Upkeep. It costs one sync for each database.
func (s *Store) Sync(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return failed("sync", err)
	}
	return s.syncAll(func(f func(*database) error) error { return s.usePending(ctx, f) })
}

func (s *Store) syncAll(use func(f func(*database) error) error) error {
	err := s.logDB.force()
	if err == nil {
		err = use((*database).force)
	}
	return failed("sync", err)
}

// Close syncs, joins every goroutine of the store and closes its files. No other call may run.
// A second Close does nothing.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		if s.mending && s.Failed() == nil {
			err = s.syncAll(s.finishPending)
		}
		close(s.stop)
		close(s.guard.closing)
		s.background.Wait()
		err = errors.Join(err, s.close(s.pendingDB, s.logDB))
	})
	return err
}

// Available returns the bytes that the disk has free for this process.
func (s *Store) Available() (uint64, error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	return usage.AvailBytes, failed("free space of "+s.dir, err)
}
