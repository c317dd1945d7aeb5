package store

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

type directory struct {
	fs   vfs.FS
	dir  string
	log  *zap.Logger
	lock io.Closer

	cache  *pebble.Cache
	guard  *guard
	synced func(seconds float64)
	// readOnly: the directory is opened without writes.
	readOnly bool
}

func newDirectory(dir string, o Options) directory {
	d := directory{fs: o.FS, dir: dir, log: o.Logger, guard: newGuard(), synced: o.Synced}
	if d.fs == nil {
		d.fs = vfs.Default
	}
	if d.log == nil {
		d.log = zap.NewNop()
	}
	return d
}

func (d *directory) lockDirectory() error {
	lock, err := d.fs.Lock(d.path(lockFile))
	var path *iofs.PathError
	switch {
	case errors.As(err, &path): // The lock file cannot be created.
		return fmt.Errorf("store: create the lock: %w", err)
	case err != nil:
		return fmt.Errorf("store: data directory %s is %w: %w", d.dir, ErrInUse, err)
	}
	d.lock = lock
	return nil
}

func (d *directory) path(elements ...string) string {
	return d.fs.PathJoin(append([]string{d.dir}, elements...)...)
}

func (d *directory) exists(path string) (bool, error) {
	_, err := d.fs.Stat(path)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return false, fmt.Errorf("store: %w", err)
	}
	return err == nil, nil
}

func (d *directory) forbid(path string, why error) error {
	exists, err := d.exists(path)
	if exists {
		return fmt.Errorf("%w: %s", why, d.dir)
	}
	return err
}

func (d *directory) syncDirectory(path string) error {
	opened, err := d.fs.OpenDir(path)
	if err == nil {
		err = errors.Join(opened.Sync(), opened.Close())
	}
	return failed("sync directory "+path, err)
}

func (d *directory) openDB(name string, lazy bool, memTable uint64) (*database, error) {
	out := &database{
		fs: newGuardFS(d.fs, d.guard, lazy, d.path(checkpointDirectory)), guard: d.guard, memory: maxMemTables * memTable, looking: make(chan struct{}, 1),
		damaged: make(chan struct{}), replaced: make(chan struct{}),
	}
	out.fs.synced = d.synced
	if !d.readOnly {
		var err error
		if out.fs.mark, err = d.openMark(name); err != nil {
			return nil, err
		}
	}
	log := &pebbleLog{log: d.log.Named(name), guard: d.guard}
	if name == pendingDirectory {
		log.damage = out.damage
	}
	options := &pebble.Options{
		FS: out.fs, Cache: d.cache, MemTableSize: memTable,
		FormatMajorVersion:          pebbleFormat,
		Logger:                      log,
		EventListener:               log.events(),
		MemTableStopWritesThreshold: pebbleStop,
		L0StopWritesThreshold:       pebbleStop,
		ReadOnly:                    d.readOnly,
	}
	// The default scheduler of each database looks ten times a second for a compaction that may run now. One compaction
	// runs at a time, and its end starts the waiting one.
	options.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	for n := range options.Levels {
		options.Levels[n].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	if name == logDirectory {
		options.L0CompactionThreshold = compactedSublevels
	}
	var err error
	if out.DB, err = pebble.Open(d.path(name), options); err != nil {
		if out.fs.mark != nil {
			err = errors.Join(err, out.fs.mark.file.Close())
		}
		return nil, fmt.Errorf("store: open %s: %w", d.path(name), err)
	}
	out.tables = options.MakeReaderOptions()
	if d.readOnly {
		return out, nil
	}
	if err := d.syncDirectory(d.dir); err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

func (d *directory) Failed() error { return d.guard.err() }

// Rejected returns a channel that closes at the first rejected write; see Failed.
func (d *directory) Rejected() <-chan struct{} { return d.guard.failed }

func (d *directory) writeFile(name string, data []byte) error {
	f, err := d.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	// A vfs.File may modify the bytes that it writes, so it gets copies.
	piece := make([]byte, min(len(data), writePiece))
	for len(data) > 0 && err == nil {
		n := copy(piece, data)
		data = data[n:]
		_, err = f.Write(piece[:n])
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (d *directory) removeAll(path string) error {
	return failed("remove "+path, d.fs.RemoveAll(path))
}

func (d *directory) close(databases ...*database) error {
	var failures []error
	for _, db := range databases {
		if db != nil {
			failures = append(failures, db.close())
		}
	}
	if d.cache != nil {
		d.cache.Unref()
	}
	if d.lock != nil {
		failures = append(failures, d.lock.Close())
	}
	return errors.Join(failures...)
}
