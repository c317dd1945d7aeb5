package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

// openPending opens the database pending. It cuts off an unsynced end of a log that a power cut
// damaged. A database with other damage is set aside, now or when a read or a compaction finds
// the damage: no acknowledged observation is in it, and the store goes on.
func (s *Store) openPending(memTable uint64, aside bool) error {
	if aside {
		if err := s.setPendingAside(errors.New("it was asked for")); err != nil {
			return err
		}
	}
	open := func() (*database, error) { return s.openDB(pendingDirectory, true, memTable) }
	db, err := s.openWhole(open)
	if isDamage(err) && s.Failed() == nil {
		if err := s.setPendingAside(err); err != nil {
			return err
		}
		db, err = open()
	}
	if err != nil {
		return err
	}
	s.pendingDB, s.mending = db, true
	s.background.Go(func() { s.mendPending(open) })
	return nil
}

// openWhole opens the database pending without the damaged end of a log.
func (s *Store) openWhole(open func() (*database, error)) (*database, error) {
	err := s.checkTail(pendingDirectory, true)
	if tail := new(TailError); errors.As(err, &tail) {
		s.log.Error("the newest log of pending predictions is damaged: labels that come for the predictions behind the damage are not found",
			zap.String("log", tail.Log), zap.Int64("whole_bytes", tail.Whole), zap.Int64("synced_bytes", tail.Synced))
		err = nil
	}
	if err == nil {
		err = s.trimTail(pendingDirectory)
	}
	if err != nil {
		return nil, err
	}
	return open()
}

// isDamage reports whether an error of Open means damaged data: an error that no system call
// returned. It cannot be a newer format, because the database log, opened before, has the same.
func isDamage(err error) bool {
	var errno syscall.Errno
	return err != nil && (!errors.As(err, &errno) || errno == syscall.ENOENT)
}

// setPendingAside renames the directory of the database pending. The caller syncs the rename.
func (s *Store) setPendingAside(cause error) error {
	aside, err := s.pendingAside()
	if err != nil {
		return err
	}
	lost := zap.Skip()
	if n := s.CountPending(); n > 0 { // At a start the count is unknown.
		lost = zap.Int64("predictions", n)
	}
	s.log.Error("pending predictions are damaged and set aside: labels that come for them are not found",
		zap.String("directory", aside), lost, zap.Error(cause))
	if err := s.fs.Rename(s.path(pendingDirectory), aside); err != nil {
		return fmt.Errorf("store: set damaged predictions aside: %w", errors.Join(err, cause))
	}
	s.aside.Store(&aside)
	return nil
}

// Aside returns the directory that the pending predictions were set aside as since Open began, or
// "".
func (s *Store) Aside() string {
	if aside := s.aside.Load(); aside != nil {
		return *aside
	}
	return ""
}

func (s *Store) pendingAside() (string, error) {
	for n := 1; ; n++ {
		aside := s.path(pendingDirectory + ".damaged-" + strconv.Itoa(n))
		if taken, err := s.exists(aside); !taken {
			return aside, err
		}
	}
}

// mendPending replaces the database pending each time that it turns out damaged. A failure ends
// the store's writing.
func (s *Store) mendPending(open func() (*database, error)) {
	for {
		db := s.pendingDB // No other goroutine changes it.
		select {
		case <-s.stop:
			return
		case <-db.damaged:
		}
		if err := s.replacePending(db, open); err != nil {
			_ = s.guard.fail(err)
			return
		}
		close(db.replaced)
	}
}

// replacePending waits for the users of the damaged database, sets the database aside and opens an
// empty one.
func (s *Store) replacePending(damaged *database, open func() (*database, error)) error {
	s.pending.Lock()
	defer s.pending.Unlock()
	if err := s.Failed(); err != nil {
		return err
	}
	s.pendingDB = nil
	if err := damaged.close(); err != nil {
		s.log.Warn("close damaged predictions", zap.Error(err))
	}
	if err := s.setPendingAside(damaged.cause); err != nil {
		return err
	}
	db, err := open()
	if err != nil {
		return err
	}
	s.pendingDB = db
	s.handles.RLock()
	defer s.handles.RUnlock()
	for _, m := range s.handles.byNumber {
		m.countPending(-m.pending.n.Load())
	}
	return nil
}

// usePending calls f with the database pending, which is not replaced meanwhile. If f fails and the
// database is damaged, usePending calls f again with the next database. The function f
// must not call usePending.
func (s *Store) usePending(ctx context.Context, f func(db *database) error) error {
	for {
		db, err := s.tryPending(f)
		if err == nil || db == nil || !s.mending || !db.isDamaged() {
			return err
		}
		select {
		case <-db.replaced:
		case <-s.guard.failed:
			return s.Failed()
		case <-ctx.Done():
			return fmt.Errorf("wait for the database of pending predictions: %w", context.Cause(ctx))
		}
	}
}

func (s *Store) finishPending(f func(db *database) error) error {
	return s.usePending(context.Background(), f)
}

func (s *Store) tryPending(f func(db *database) error) (*database, error) {
	s.pending.RLock()
	defer s.pending.RUnlock()
	if s.pendingDB == nil {
		return nil, errors.Join(s.Failed(), errors.New("the pending predictions cannot be read"))
	}
	err := f(s.pendingDB)
	if errors.Is(err, storage.ErrCorrupt) || pebble.IsCorruptionError(err) {
		s.pendingDB.damage(err)
	}
	return s.pendingDB, err
}

func (s *Store) syncPending() error {
	return s.finishPending(func(db *database) error { return db.fs.syncLogs() })
}

// countPending counts the pending predictions. It reads their index too, to find damaged blocks.
func (s *Store) countPending(used map[uint64]bool) error {
	var hashes []uint64
	var counts map[uint64]int64
	err := s.finishPending(func(db *database) error {
		hashes, counts = nil, map[uint64]int64{}
		err := db.scan([]byte{familyExpiry}, []byte{familyExpiry + 1}, func(_, _ []byte) (bool, error) { return true, nil })
		if err != nil {
			return err
		}
		return db.eachPending(func(model uint64, id string) {
			hashes = append(hashes, s.pendingFilter.hash(model, id))
			counts[model]++
		})
	})
	if err != nil {
		return err
	}
	s.pendingFilter.begin(hashes)
	for model, n := range counts {
		used[model] = true
		if m := s.handle(model); m != nil {
			m.countPending(n)
		}
	}
	return nil
}
