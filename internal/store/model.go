package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

// Model is the handle of one model. There is one handle for a model number,
// and a number belongs to one model for ever: a model that is created again
// under the name of a deleted one has another number and another handle.
//
// Order of locks: writing, then Store.ids or the stripes of Store.waiting,
// then end.
type Model struct {
	store  *Store
	name   string
	number uint64
	stage  atomic.Int32
	// waiting counts the predictions that wait.
	waiting tally
	// writing is held by every call that changes the log or the ids.
	writing sync.Mutex
	// end is the last sequence of the log, once it is known. It is known
	// before a record is appended, and only an appender, which holds writing,
	// changes it then: a call that reads the end from the disk cannot store an
	// old end over a new one.
	end struct {
		sync.Mutex
		known bool
		last  uint64
	}
}

// Stages of a model's life.
const (
	stageMaking  = iota // Its number is taken, its name is not registered.
	stageThere          // Its name is registered.
	stageDeleted        // It is deleted, or was never registered.
)

// failed says what could not be done with the model.
func (m *Model) failed(what string, err error) error {
	if err == nil || errors.As(err, new(*CorruptError)) {
		return err // It names the model.
	}
	return fmt.Errorf("store: %s of model %q: %w", what, m.name, err)
}

// gone is ErrNotFound for a deleted model.
func (m *Model) gone() error {
	if m.stage.Load() == stageDeleted {
		return fmt.Errorf("the model was deleted: %w", storage.ErrNotFound)
	}
	return nil
}

// Delete implements storage.Model. The batch that takes the name out of the
// registry is the commit point: before it the context may end the call, and
// after it the model is deleted, whatever fails.
func (m *Model) Delete(ctx context.Context) error {
	s := m.store
	if err := s.logDB.room(ctx); err != nil {
		return m.failed("delete the data", err)
	}
	if err := m.unregister(ctx); err != nil {
		return m.failed("delete the data", err)
	}
	s.dropHandle(m)
	if err := m.drop(context.WithoutCancel(ctx)); err != nil {
		s.log.Warn("not all that was kept of a deleted model is removed; the next start removes it",
			zap.String("model", m.name), zap.Error(err))
	}
	return nil
}

// unregister takes the name out of the registry, together with the log.
func (m *Model) unregister(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := m.gone(); err != nil {
		return err
	}
	err := m.store.logDB.commitDurably(func(b *pebble.Batch) error {
		lower, upper := modelRange(familyLog, m.number)
		return errors.Join(
			b.DeleteRange(lower, upper, nil),
			b.Delete(key(familyRewind, m.number), nil),
			b.Delete(registryKey(m.name), nil),
		)
	})
	if err != nil {
		return err
	}
	m.stage.Store(stageDeleted)
	return nil
}

// drop removes what is kept under the number of a model that is not
// registered. It does not wait for the disk. The index of the waiting
// predictions is left to Expire, and so is a prediction that a call of
// PutWaiting, begun before, writes after.
func (m *Model) drop(ctx context.Context) error {
	return errors.Join(
		m.store.dropIDs(ctx, m.number, nil),
		m.store.dropWaiting(ctx, m.number),
		m.store.removeAll(m.store.path(snapshots, number(m.number))),
	)
}

func number(model uint64) string { return strconv.FormatUint(model, 10) }
