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

// Model is the handle of one model. A model number has one handle and belongs to one model for
// ever: a new model under the name of a deleted one has another number and another handle.
//
// Order of locks: writing, then Store.ids or the stripes of Store.rows, then
// Store.filter.committing, then end or snapshotting.
type Model struct {
	store   *Store
	name    string
	number  uint64
	stage   atomic.Int32
	pending tally
	// waiting counts the rows of calls of PutPending that wait.
	waiting atomic.Int64
	// writing: every call that changes the log or the ids holds it.
	writing sync.Mutex
	// snapshotting: one WriteSnapshot at a time writes the temporary file.
	snapshotting sync.Mutex
	// end is the last sequence of the log. A known end is the end that every reader of the log sees:
	//
	//	known => !changing
	//
	// Pebble shows a commit to readers before the commit returns. So the end is unknown while a call
	// that holds writing changes the log, and readers read the end from the disk.
	end struct {
		sync.Mutex
		known, changing bool
		last            uint64
	}
}

// Stages of a model's life.
const (
	stageMaking     = iota // The number is taken, the name is not registered.
	stageRegistered        // The name is registered.
	stageDeleted           // The model is deleted, or was never registered.
)

func (m *Model) failed(what string, err error) error {
	if err == nil || errors.As(err, new(*CorruptError)) {
		return err // It names the model.
	}
	return fmt.Errorf("store: %s of model %q: %w", what, m.name, err)
}

func (m *Model) gone() error {
	if m.stage.Load() == stageDeleted {
		return storage.ErrDeleted
	}
	return nil
}

// Delete implements storage.Model. The batch that removes the name from the registry is the commit
// point: before it the end of ctx ends Delete, after it the model is deleted, whatever fails.
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
		s.log.Warn("data of a deleted model is left; the next start removes it",
			zap.String("model", m.name), zap.Error(err))
	}
	return nil
}

func (m *Model) unregister(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := m.gone(); err != nil {
		return err
	}
	err := m.store.complete(ctx, m.store.logDB.commitDurably, func(b *pebble.Batch) error {
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

// drop removes the data of a model that is not registered. It does not wait for the disk. Expire
// removes what drop leaves: the index of the pending predictions, and rows of a concurrent
// PutPending.
func (m *Model) drop(ctx context.Context) error {
	return errors.Join(m.store.dropIDs(ctx, m.number, nil), m.store.dropPending(ctx, m.number), m.dropSnapshots())
}

// dropSnapshots removes the snapshots. It first makes the deletion durable, because a power cut must not bring the
// model back without them.
func (m *Model) dropSnapshots() error {
	s := m.store
	if left, err := s.list(m.directory()); err != nil || len(left) > 0 {
		if err := s.syncCommits(); err != nil {
			return err
		}
	}
	return s.removeAll(m.directory())
}

// Number implements storage.Model.
func (m *Model) Number() uint64 { return m.number }

func number(model uint64) string { return strconv.FormatUint(model, 10) }
