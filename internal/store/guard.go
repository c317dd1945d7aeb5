package store

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine/storage"
)

// guard keeps the error of the first rejected write, and hides the error from Pebble. Both
// databases share one guard.
//
// Pebble cannot go on after a rejected write. When a write-ahead log fails, it
// panics with its locks held, which leaves every other commit and Close waiting
// for ever, or it ends the process. When a manifest fails, it panics later, in
// the background. It tries a failed flush again at once, without end, in Open
// too. It reports a failed commit to its logger alone.
//
// So the files that Pebble gets (guardFS) hide the error from it. The first
// rejected write is stored here before Pebble goes on from it. After that nothing
// is changed on the disk, as if the power had been cut, and Pebble sees all
// writes succeed. Only new tables are rejected, which Pebble can handle: it
// keeps in memory what it cannot flush, so that reads stay right. Every commit
// looks here before it is acknowledged (database.commit), so that no commit
// that needed the rejected write is.
type guard struct {
	first atomic.Pointer[error]
	// failed is closed with the first failure, closing by Close.
	failed, closing chan struct{}
	// opening is true until Open ends. Pebble cannot give up a flush inside
	// Open, so that until then even tables are said to be written.
	opening atomic.Bool
}

func newGuard() *guard {
	g := &guard{failed: make(chan struct{}), closing: make(chan struct{})}
	g.opening.Store(true)
	return g
}

func (g *guard) err() error {
	if err := g.first.Load(); err != nil {
		return *err
	}
	return nil
}

func (g *guard) fail(cause error) error {
	err := fmt.Errorf("store: %w: %w", storage.ErrFailed, cause)
	if g.first.CompareAndSwap(nil, &err) {
		close(g.failed)
	}
	return g.err()
}

// change keeps the failure of a change. After a failure nothing is changed, and Pebble sees success.
func (g *guard) change(do func() error) error {
	if g.err() == nil {
		if err := do(); err != nil {
			_ = g.fail(err)
		}
	}
	return nil
}

// guardFS is the file system of one database. It hides failures from Pebble.
// When it is lazy it also leaves out the syncs of write-ahead logs: a commit
// that asks Pebble for a sync has then been written to the operating system
// when it returns. A commit that does not ask stays in the process's memory
// until a later one takes it along.
type guardFS struct {
	vfs.FS
	guard *guard
	lazy  bool
	// apart is a directory whose files are not the database's: their failures are
	// passed on.
	apart string
	// rotations counts the write-ahead logs that were begun.
	rotations atomic.Int64
	// syncs counts the syncs of write-ahead logs, and synced takes what each took, in
	// seconds. It may be nil.
	syncs  atomic.Int64
	synced func(seconds float64)
	// mark records how far logs and manifests are synced. It may be nil.
	mark *syncedMark
	open struct {
		sync.Mutex
		logs map[*guardFile]struct{}
	}
}

func newGuardFS(fs vfs.FS, g *guard, lazy bool, apart string) *guardFS {
	f := &guardFS{FS: fs, guard: g, lazy: lazy, apart: apart}
	f.open.logs = make(map[*guardFile]struct{})
	return f
}

func (f *guardFS) Unwrap() vfs.FS { return f.FS }

func (f *guardFS) isApart(name string) bool { return strings.HasPrefix(name, f.apart) }

func (f *guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.isApart(name) {
		return f.FS.Create(name, category)
	}
	return f.writable(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *guardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.writable(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, o...) })
}

func (f *guardFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.writable(newName, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldName, newName, category) })
}

// writable opens a file for writing. After a failure it returns a file in memory that nobody
// reads. For a table writable waits until Close begins and then fails, because Pebble would
// retry without end; Pebble holds none of its locks meanwhile.
func (f *guardFS) writable(name string, open func() (vfs.File, error)) (vfs.File, error) {
	out := &guardFile{fs: f, name: f.PathBase(name), log: strings.HasSuffix(name, ".log"), table: strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")}
	if out.log {
		f.rotations.Add(1)
	}
	err := f.guard.err()
	if err == nil {
		if out.File, err = open(); err == nil {
			if out.log {
				f.open.Lock()
				f.open.logs[out] = struct{}{}
				f.open.Unlock()
			}
			return out, nil
		}
		err = f.guard.fail(err)
	}
	if out.pretends() {
		out.File = vfs.NewMemFile(nil)
		return out, nil
	}
	<-f.guard.closing
	return nil, err
}

func (f *guardFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil || f.isApart(name) {
		return d, err
	}
	return &guardDir{File: d, guard: f.guard}, nil
}

func (f *guardFS) Rename(oldName, newName string) error {
	if f.isApart(newName) {
		return f.FS.Rename(oldName, newName)
	}
	return f.guard.change(func() error { return f.FS.Rename(oldName, newName) })
}

func (f *guardFS) Link(oldName, newName string) error {
	if f.isApart(newName) {
		return f.FS.Link(oldName, newName)
	}
	return f.guard.change(func() error { return f.FS.Link(oldName, newName) })
}

func (f *guardFS) Remove(name string) error { return f.remove(name, f.FS.Remove) }

func (f *guardFS) RemoveAll(name string) error { return f.remove(name, f.FS.RemoveAll) }

// remove does not end writing if it fails: Pebble removes the file at the next start.
func (f *guardFS) remove(name string, remove func(string) error) error {
	if f.guard.err() != nil && !f.isApart(name) {
		return nil // After a failure nothing is changed, and Pebble sees success.
	}
	return remove(name)
}

// GetDiskUsage implements vfs.FS. Pebble paces deletions by it, and would report its error as a
// failure of the storage.
func (f *guardFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := f.FS.GetDiskUsage(path)
	if err != nil {
		return usage, vfs.ErrUnsupported
	}
	return usage, nil
}

// syncLogs does the syncs that the lazy file system left out. Writers do not wait.
func (f *guardFS) syncLogs() error {
	f.open.Lock()
	logs := make([]*guardFile, 0, len(f.open.logs))
	for file := range f.open.logs {
		logs = append(logs, file)
	}
	f.open.Unlock()
	for _, file := range logs {
		file.catchUp()
	}
	return f.guard.err()
}

type guardDir struct {
	vfs.File
	guard *guard
}

func (d *guardDir) Sync() error { return d.guard.change(d.File.Sync) }

type guardFile struct {
	vfs.File
	fs         *guardFS
	log, table bool
	// name is without directories. written is how many bytes were written.
	name    string
	written atomic.Int64
	// dirty says that a log has something that was not synced.
	dirty atomic.Bool
	// mu is held during catchUp, so that it ends before the file closes.
	mu struct {
		sync.Mutex
		closed bool
	}
}

// pretends reports whether Pebble sees success after a failure.
func (f *guardFile) pretends() bool { return !f.table || f.fs.guard.opening.Load() }

// do runs one change of the file, unless a write was rejected before.
func (f *guardFile) do(change func() error) error {
	err := f.fs.guard.err()
	if err == nil {
		if err = change(); err == nil {
			return nil
		}
		err = f.fs.guard.fail(err)
	}
	if f.pretends() {
		return nil
	}
	return err
}

func (f *guardFile) Write(p []byte) (int, error) {
	length := len(p)
	if err := f.do(func() error {
		_, err := f.File.Write(p)
		return err
	}); err != nil {
		return 0, err
	}
	f.written.Add(int64(length))
	if f.log {
		// After the write: a sync that began before may have missed it.
		f.dirty.Store(true)
	}
	return length, nil
}

func (f *guardFile) WriteAt(p []byte, offset int64) (int, error) {
	length := len(p)
	if err := f.do(func() error {
		_, err := f.File.WriteAt(p, offset)
		return err
	}); err != nil {
		return 0, err
	}
	return length, nil
}

// Preallocate implements vfs.File. It is a hint, whose failure says nothing.
func (f *guardFile) Preallocate(offset, length int64) error {
	if f.fs.guard.err() != nil {
		return nil //nolint:nilerr // After a failure nothing is changed, and Pebble sees success.
	}
	return f.File.Preallocate(offset, length)
}

func (f *guardFile) Sync() error { return f.sync(f.File.Sync) }

func (f *guardFile) SyncData() error { return f.sync(f.File.SyncData) }

// SyncTo implements vfs.File. It promises nothing and may be left out.
func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	if f.log && f.fs.lazy {
		return false, nil
	}
	err = f.do(func() error {
		var err error
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *guardFile) sync(now func() error) error {
	switch {
	case f.log && f.fs.lazy:
		return nil
	case f.log:
		f.dirty.Store(false)
		return f.do(func() error { return f.measured(now) })
	default:
		return f.do(func() error { return f.marked(now) })
	}
}

func (f *guardFile) marked(sync func() error) error {
	written := f.written.Load()
	if err := sync(); err != nil {
		return err
	}
	if f.fs.mark == nil {
		return nil
	}
	return f.fs.mark.record(f.name, written)
}

func (f *guardFile) measured(sync func() error) error {
	started := time.Now() //nolint:forbidigo // A duration for the metrics; nothing depends on it.
	if err := f.marked(sync); err != nil {
		return err
	}
	f.fs.syncs.Add(1)
	if f.fs.synced != nil {
		f.fs.synced(time.Since(started).Seconds())
	}
	return nil
}

func (f *guardFile) catchUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed || !f.dirty.Swap(false) {
		return
	}
	_ = f.do(func() error { return f.measured(f.File.SyncData) }) // Kept by the guard.
}

// Close implements vfs.File. It syncs a log first: a closed log is no longer the newest log,
// and recovery accepts a torn end only in the newest.
func (f *guardFile) Close() error {
	if f.log {
		f.catchUp()
		f.fs.open.Lock()
		delete(f.fs.open.logs, f)
		f.fs.open.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	err := f.File.Close()
	if err != nil {
		err = f.fs.guard.fail(err)
	}
	if f.pretends() {
		return nil
	}
	return err
}
