package store

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// syncFS is a file system whose write-ahead logs are synced only when it is
// forced, or always. A commit that asks Pebble for a sync is then written to
// the operating system before it returns, and only the sync is left out:
// without asking, Pebble would keep it in the process's memory.
type syncFS struct {
	vfs.FS
	lazy bool
	// forced counts those who need real syncs now.
	forced atomic.Int32
	// dirty says that a sync was left out.
	dirty atomic.Bool
	// syncs and nanoseconds account for the real ones.
	syncs, nanoseconds atomic.Int64
}

func newSyncFS(fs vfs.FS, lazy bool) *syncFS { return &syncFS{FS: fs, lazy: lazy} }

// Create implements vfs.FS.
func (f *syncFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(name)(f.FS.Create(name, category))
}

// OpenReadWrite implements vfs.FS.
func (f *syncFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(name)(f.FS.OpenReadWrite(name, category, o...))
}

// ReuseForWrite implements vfs.FS.
func (f *syncFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(newName)(f.FS.ReuseForWrite(oldName, newName, category))
}

// Unwrap implements vfs.FS.
func (f *syncFS) Unwrap() vfs.FS { return f.FS }

func (f *syncFS) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		if err != nil || !strings.HasSuffix(name, ".log") {
			return file, err
		}
		return &syncFile{File: file, fs: f}, nil
	}
}

// syncFile is a write-ahead log.
type syncFile struct {
	vfs.File
	fs *syncFS
	// dirty says that this file has a sync left out.
	dirty atomic.Bool
}

// Sync implements vfs.File.
func (f *syncFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *syncFile) SyncData() error { return f.sync(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *syncFile) SyncTo(length int64) (bool, error) {
	if f.fs.lazy && f.fs.forced.Load() == 0 {
		f.leaveOut()
		return false, nil
	}
	return f.File.SyncTo(length) //nolint:wrapcheck // Pebble's own file.
}

// Close syncs what was left out: a log that is closed is not the last one any
// more, and recovery is strict about all but the last.
func (f *syncFile) Close() error {
	if f.dirty.Load() {
		if err := f.real(f.File.Sync); err != nil {
			return err
		}
	}
	return f.File.Close() //nolint:wrapcheck // Pebble's own file.
}

func (f *syncFile) sync(now func() error) error {
	if f.fs.lazy && f.fs.forced.Load() == 0 {
		f.leaveOut()
		return nil
	}
	return f.real(now)
}

func (f *syncFile) leaveOut() {
	f.dirty.Store(true)
	f.fs.dirty.Store(true)
}

func (f *syncFile) real(sync func() error) error {
	f.dirty.Store(false)
	started := time.Now() //nolint:forbidigo // A duration for the metrics; nothing depends on it.
	if err := sync(); err != nil {
		return err
	}
	f.fs.syncs.Add(1)
	f.fs.nanoseconds.Add(int64(time.Since(started)))
	return nil
}

// failure is the first thing that went wrong with the disk.
type failure struct{ first atomic.Pointer[error] }

func (f *failure) get() error {
	if err := f.first.Load(); err != nil {
		return *err
	}
	return nil
}

// set keeps the first failure and gives it back.
func (f *failure) set(what string) error {
	err := fmt.Errorf("%w: %s", ErrFailed, what)
	f.first.CompareAndSwap(nil, &err)
	return f.get()
}

// pebbleLog takes Pebble's log lines. What Pebble calls fatal it would end
// the process for; here it ends the store's writing.
type pebbleLog struct {
	log     *zap.Logger
	failure *failure
}

// Infof implements pebble.Logger.
func (l *pebbleLog) Infof(format string, args ...any) {
	if l.log.Core().Enabled(zap.DebugLevel) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger.
func (l *pebbleLog) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf implements pebble.Logger.
func (l *pebbleLog) Fatalf(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	l.log.Error("storage failed: nothing is acknowledged any more; restart the server once the disk is well", zap.String("cause", what))
	_ = l.failure.set(what)
}
