package store

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// stripes are locks for the rows of waiting predictions, one for the ids of
// one hash. A call that looks whether a row is there before it writes or removes
// the row holds the lock of its id from the look to the commit and the count, so
// that every row is counted once. A row under a minted id cannot be there, and
// needs no lock to be put.
type stripes struct {
	seed  maphash.Seed
	locks [stripeCount]sync.Mutex
}

const stripeCount = 256

// stripeSet is a set of stripes, one bit each.
type stripeSet [stripeCount / 64]uint64

// add adds the stripe of an id.
func (l *stripes) add(set *stripeSet, model uint64, id string) {
	n := (maphash.String(l.seed, id) + model) % stripeCount
	set[n/64] |= 1 << (n % 64)
}

// lock locks a set in the order of the stripes, so that two callers cannot
// wait for each other. It gives the function that unlocks it.
func (l *stripes) lock(set stripeSet) (unlock func()) {
	l.each(set, (*sync.Mutex).Lock)
	return func() { l.each(set, (*sync.Mutex).Unlock) }
}

func (l *stripes) each(set stripeSet, f func(*sync.Mutex)) {
	for word, left := range set {
		for ; left != 0; left &= left - 1 {
			f(&l.locks[word*64+bits.TrailingZeros64(left)])
		}
	}
}

// PutWaiting implements storage.Waiting. A power cut within the next second may
// lose the rows, unless Options.PendingSync is set.
func (m *Model) PutWaiting(rows []storage.Prediction) error {
	return m.failed("keep waiting predictions", m.putWaiting(context.Background(), rows))
}

func (m *Model) putWaiting(ctx context.Context, rows []storage.Prediction) error {
	s := m.store
	var looked stripeSet
	minted := int64(0)
	for n := range rows {
		if err := checkID(rows[n].ID); err != nil {
			return err
		}
		if rows[n].Minted {
			minted++
		} else {
			s.waiting.add(&looked, m.number, rows[n].ID)
		}
	}
	return s.usePending(ctx, func(db *database) error {
		if err := db.room(ctx); err != nil {
			return err
		}
		if minted < int64(len(rows)) {
			defer s.waiting.lock(looked)()
		}
		if err := m.gone(); err != nil {
			return err
		}
		// A minted row is counted before it can be found, and taken off the count.
		m.countWaiting(minted)
		fresh := int64(0)
		err := db.commit(pebble.Sync, func(b *pebble.Batch) (err error) {
			fresh, err = m.fillWaiting(db, b, rows, minted)
			return err
		})
		if err != nil {
			m.countWaiting(-minted)
			return err
		}
		m.countWaiting(fresh)
		return nil
	})
}

// fillWaiting puts rows into a batch, and takes the entries out of the index
// that they had before. It tells how many that are not minted are new.
func (m *Model) fillWaiting(db *database, b *pebble.Batch, rows []storage.Prediction, minted int64) (fresh int64, err error) {
	batched := newBatched(len(rows) - int(minted))
	for n := range rows {
		r, expiry := &rows[n], nanoseconds(rows[n].Expiry)
		if !r.Minted {
			replaced, err := m.replaceWaiting(db, b, batched, r.ID, expiry)
			if err != nil {
				return 0, err
			}
			if !replaced {
				fresh++
			}
		}
		if err := setTimed(b, familyWaiting, familyExpiry, m.number, r.ID, expiry, r.Value); err != nil {
			return 0, err
		}
	}
	return fresh, nil
}

// replaceWaiting takes the entry of an id out of the index, unless it has the
// new expiry, and tells whether there was one.
func (m *Model) replaceWaiting(
	db *database, b *pebble.Batch, batched batched, id string, expiry int64,
) (replaced bool, err error) {
	old, ok := batched.at(id)
	if !ok {
		if old, ok, err = db.timeOf(idKey(familyWaiting, m.number, id)); err != nil {
			return false, err
		}
	}
	if ok && old != expiry {
		if err := b.Delete(agedKey(familyExpiry, old, m.number, id), nil); err != nil {
			return false, fmt.Errorf("fill a batch: %w", err)
		}
	}
	batched.put(id, expiry)
	return ok, nil
}

// GetWaiting implements storage.Waiting.
func (m *Model) GetWaiting(id string) (storage.Prediction, bool, error) {
	p, ok, err := m.getWaiting(id)
	return p, ok, m.failed("look up a waiting prediction", err)
}

func (m *Model) getWaiting(id string) (storage.Prediction, bool, error) {
	if err := m.gone(); err != nil {
		return storage.Prediction{}, false, err
	}
	var v []byte
	var ok bool
	err := m.store.finishPending(func(db *database) (err error) {
		v, ok, err = db.get(idKey(familyWaiting, m.number, id))
		return err
	})
	if err != nil || !ok {
		return storage.Prediction{}, false, err
	}
	expiry, value, err := splitTimed(v)
	if err != nil {
		return storage.Prediction{}, false, fmt.Errorf("id %q: %w", id, err)
	}
	return storage.Prediction{ID: id, Value: value, Expiry: time.Unix(0, expiry)}, true, nil
}

// RemoveWaiting implements storage.Waiting. A crash may bring rows back.
func (m *Model) RemoveWaiting(ids []string) error {
	return m.failed("remove waiting predictions", m.removeWaiting(ids))
}

func (m *Model) removeWaiting(ids []string) error {
	return m.store.finishPending(func(db *database) error { return m.removeWaitingFrom(db, ids) })
}

func (m *Model) removeWaitingFrom(db *database, ids []string) error {
	s := m.store
	if err := db.room(context.Background()); err != nil {
		return err
	}
	var looked stripeSet
	for _, id := range ids {
		s.waiting.add(&looked, m.number, id)
	}
	defer s.waiting.lock(looked)()
	if err := m.gone(); err != nil {
		return err
	}
	removed := int64(0)
	err := db.commit(pebble.NoSync, func(b *pebble.Batch) error {
		batched := newBatched(len(ids))
		for _, id := range ids {
			if _, twice := batched.at(id); twice {
				continue
			}
			expiry, ok, err := db.timeOf(idKey(familyWaiting, m.number, id))
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			batched.put(id, expiry)
			removed++
			if err := deleteTimed(b, familyWaiting, familyExpiry, m.number, id, expiry); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.countWaiting(-removed)
	return nil
}

// tally counts the waiting predictions of a model, as part of those of all.
type tally struct {
	mu sync.Mutex
	n  atomic.Int64
	// closed says that the model is no longer part of that sum.
	closed bool
}

// countWaiting counts n more predictions that wait.
func (m *Model) countWaiting(n int64) {
	m.waiting.mu.Lock()
	defer m.waiting.mu.Unlock()
	m.waiting.n.Add(n)
	if !m.waiting.closed {
		m.store.waitingOfAll.Add(n)
	}
}

// countNoneWaiting counts that no prediction waits.
func (m *Model) countNoneWaiting() {
	m.waiting.mu.Lock()
	defer m.waiting.mu.Unlock()
	n := m.waiting.n.Swap(0)
	if !m.waiting.closed {
		m.store.waitingOfAll.Add(-n)
	}
}

// closeTally takes the model out of the count of all.
func (m *Model) closeTally() {
	m.waiting.mu.Lock()
	defer m.waiting.mu.Unlock()
	if !m.waiting.closed {
		m.store.waitingOfAll.Add(-m.waiting.n.Load())
	}
	m.waiting.closed = true
}

// CountWaiting implements storage.Upkeep.
func (s *Store) CountWaiting() int64 { return s.waitingOfAll.Load() }

// CountWaiting implements storage.Waiting.
func (m *Model) CountWaiting() int64 {
	if m.gone() != nil {
		return 0
	}
	return m.waiting.n.Load()
}

// EachWaiting implements storage.Waiting. It has no rows to give when the
// waiting predictions of an inspected store cannot be read.
func (m *Model) EachWaiting(ctx context.Context, f func(storage.Prediction) error) error {
	if err := m.gone(); err != nil {
		return m.failed("read the waiting predictions", err)
	}
	// The rows are not given twice: no usePending.
	m.store.pending.RLock()
	defer m.store.pending.RUnlock()
	if m.store.pendingDB == nil {
		return nil
	}
	return m.each(ctx, m.store.pendingDB, familyWaiting, "read the waiting predictions",
		func(id string, expiry time.Time, value []byte) error {
			return f(storage.Prediction{ID: id, Value: value, Expiry: expiry})
		})
}

// Expire implements storage.Upkeep. It works in portions, looks at the context
// between them, and calls f without a lock.
func (s *Store) Expire(ctx context.Context, now time.Time, f func(storage.Model)) error {
	lower := []byte{familyExpiry}
	for lower != nil {
		var dropped []*Model
		var next []byte
		err := context.Cause(ctx)
		if err == nil {
			err = s.usePending(ctx, func(db *database) (err error) {
				if err = db.room(ctx); err == nil {
					dropped, next, err = s.expireSome(db, lower, now)
				}
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("store: expire waiting predictions: %w", err)
		}
		lower = next
		for _, m := range dropped {
			f(m)
		}
	}
	return nil
}

// expireSome goes through a portion of the index from lower on, and tells where
// the next begins; nil at the end. It gives the model of every row that it
// dropped, except models that are not registered.
func (s *Store) expireSome(db *database, lower []byte, now time.Time) (models []*Model, next []byte, err error) {
	due, err := db.agedBefore(lower, key(familyExpiry, uint64(nanoseconds(now))+1), portion)
	if err != nil || len(due) == 0 {
		return nil, nil, err
	}
	var looked stripeSet
	for _, e := range due {
		s.waiting.add(&looked, e.model, e.id)
	}
	defer s.waiting.lock(looked)()
	dropped := make([]uint64, 0, len(due))
	err = db.commit(pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range due {
			drop, err := db.deleteAged(b, familyWaiting, familyExpiry, e)
			if err != nil {
				return err
			}
			if drop {
				dropped = append(dropped, e.model)
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, model := range dropped {
		m := s.handle(model)
		if m == nil {
			continue
		}
		m.countWaiting(-1)
		if m.stage.Load() == stageThere {
			models = append(models, m)
		}
	}
	last := due[len(due)-1]
	return models, append(agedKey(familyExpiry, last.at, last.model, last.id), 0), nil
}

// dropWaiting drops the waiting predictions of a model that is not registered.
func (s *Store) dropWaiting(ctx context.Context, model uint64) error {
	return s.usePending(ctx, func(db *database) error {
		return db.write(ctx, pebble.NoSync, func(b *pebble.Batch) error {
			lower, upper := modelRange(familyWaiting, model)
			return b.DeleteRange(lower, upper, nil)
		})
	})
}
