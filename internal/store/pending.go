package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

// openPending opens the waiting predictions. A power cut may have damaged the
// end of a log that was not synced; it is cut off. A database that is damaged
// beyond that is set aside, at once or when a read or a compaction finds the damage:
// nothing in it was acknowledged as learned, and all else goes on.
func (s *Store) openPending(lazy bool, memTable uint64, aside bool) error {
	if aside {
		if err := s.setPendingAside(errors.New("it was asked for")); err != nil {
			return err
		}
	}
	open := func() (*database, error) { return s.openDB(pendingDirectory, lazy, memTable) }
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

// openWhole opens the waiting predictions, without the damaged end of a log.
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

// isDamage tells whether an error of Open is one of what is stored. The log, which is
// opened before, is of the same version, so that what no system call refused is damage.
func isDamage(err error) bool {
	var refused syscall.Errno
	return err != nil && (!errors.As(err, &refused) || refused == syscall.ENOENT)
}

// setPendingAside renames the directory of the waiting predictions. The caller makes that
// durable.
func (s *Store) setPendingAside(cause error) error {
	aside, err := s.pendingAside()
	if err != nil {
		return err
	}
	lost := zap.Skip()
	if n := s.CountWaiting(); n > 0 { // At a start it is not known.
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

// Aside is where the waiting predictions were set aside since Open began, "" if they were
// not.
func (s *Store) Aside() string {
	if aside := s.aside.Load(); aside != nil {
		return *aside
	}
	return ""
}

// pendingAside is a name that no directory has.
func (s *Store) pendingAside() (string, error) {
	for n := 1; ; n++ {
		aside := s.path(pendingDirectory + ".damaged-" + strconv.Itoa(n))
		if _, err := s.fs.Stat(aside); errors.Is(err, os.ErrNotExist) {
			return aside, nil
		} else if err != nil {
			return "", fmt.Errorf("store: set damaged predictions aside: %w", err)
		}
	}
}

// mendPending replaces the database of the waiting predictions each time that it is found
// damaged. A failure ends the store's writing.
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

// replacePending waits for the calls that use the damaged database, sets it aside and
// opens an empty one in its place.
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
		m.countNoneWaiting()
	}
	return nil
}

// usePending calls f with the database of the waiting predictions, which is not replaced
// meanwhile. If f fails and the database is damaged, f is called again with the one that
// takes its place. It must not call usePending itself.
func (s *Store) usePending(ctx context.Context, f func(db *database) error) error {
	gone, err := s.usePendingUntil(ctx.Done(), f)
	if gone {
		return waited(ctx)
	}
	return err
}

// finishPending is usePending of work that nobody gives up.
func (s *Store) finishPending(f func(db *database) error) error {
	_, err := s.usePendingUntil(nil, f)
	return err
}

func (s *Store) usePendingUntil(done <-chan struct{}, f func(db *database) error) (gone bool, err error) {
	for {
		db, err := s.tryPending(f)
		if err == nil || db == nil || !s.mending || !db.isDamaged() {
			return false, err
		}
		select {
		case <-db.replaced:
		case <-s.guard.failed:
			return false, s.Failed()
		case <-done:
			return true, nil
		}
	}
}

func (s *Store) tryPending(f func(db *database) error) (*database, error) {
	s.pending.RLock()
	defer s.pending.RUnlock()
	if s.pendingDB == nil {
		return nil, errors.Join(s.Failed(), errors.New("the waiting predictions cannot be read"))
	}
	err := f(s.pendingDB)
	if errors.Is(err, storage.ErrCorrupt) || pebble.IsCorruptionError(err) {
		s.pendingDB.damage(err)
	}
	return s.pendingDB, err
}

// syncPending does the syncs that were left out so far.
func (s *Store) syncPending() error {
	return s.finishPending(func(db *database) error { return db.fs.syncLogs() })
}

// countPending counts the waiting predictions, and reads their index too, so that damage
// of a block is found here.
func (s *Store) countPending(used map[uint64]bool) error {
	var waiting map[uint64]int64
	err := s.finishPending(func(db *database) error {
		waiting = map[uint64]int64{}
		err := db.scan([]byte{familyExpiry}, []byte{familyExpiry + 1}, func(_, _ []byte) (bool, error) { return true, nil })
		if err != nil {
			return err
		}
		return db.scan([]byte{familyWaiting}, []byte{familyWaiting + 1}, func(k, _ []byte) (bool, error) {
			model, err := splitModel(k)
			waiting[model]++
			return true, err
		})
	})
	if err != nil {
		return err
	}
	for model, n := range waiting {
		used[model] = true
		if m := s.handle(model); m != nil {
			m.countWaiting(n)
		}
	}
	return nil
}
