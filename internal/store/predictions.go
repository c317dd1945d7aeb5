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

// stripes are locks for pending predictions, by the hash of their ids. A call that reads whether a
// row exists before it puts or deletes the row holds the lock of its id from the read to the commit
// and the count, so that every row counts once. A row under a minted id does not exist, and needs no
// lock.
type stripes struct {
	seed  maphash.Seed
	locks [stripeCount]sync.Mutex
}

const stripeCount = 256

// stripeSet is a set of stripes, one bit each.
type stripeSet [stripeCount / 64]uint64

func (l *stripes) add(set *stripeSet, model uint64, id string) {
	n := (maphash.String(l.seed, id) + model) % stripeCount
	set[n/64] |= 1 << (n % 64)
}

func (s *stripeSet) join(other *stripeSet) {
	for word := range s {
		s[word] |= other[word]
	}
}

func (s *stripeSet) disjoint(other *stripeSet) bool {
	common := uint64(0)
	for word := range s {
		common |= s[word] & other[word]
	}
	return common == 0
}

// lock locks a set in the order of the stripes, so that callers cannot deadlock, and returns the
// function that unlocks the set.
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

// PutPending implements storage.Pending. A power cut within a second may lose the rows.
func (m *Model) PutPending(rows []storage.Prediction) error {
	p, err := m.newPut(rows)
	if err == nil {
		err = m.store.putTogether(p)
	}
	return m.failed("keep pending predictions", err)
}

// fillPending puts rows into a batch, deletes the index entries that the rows had before, and
// returns how many rows without a minted id are new.
func (m *Model) fillPending(db *database, b *pebble.Batch, rows []storage.Prediction, minted int64) (fresh int64, err error) {
	batched := newBatched(len(rows) - int(minted))
	for n := range rows {
		r, expiry := &rows[n], nanoseconds(rows[n].Expiry)
		switch {
		case r.Minted:
		case !m.store.pendingFilter.may(m.number, r.ID): // Nor is it twice in the batch.
			fresh++
			batched.put(r.ID, expiry)
		default:
			replaced, err := batched.replace(db, b, familyPending, familyExpiry, m.number, r.ID, expiry)
			if err != nil {
				return 0, err
			}
			if !replaced {
				fresh++
			}
		}
		m.store.pendingFilter.add(m.number, r.ID)
		if err := setTimed(b, familyPending, familyExpiry, m.number, r.ID, expiry, r.Value); err != nil {
			return 0, err
		}
	}
	return fresh, nil
}

// GetPending implements storage.Pending.
func (m *Model) GetPending(id string) (p storage.Prediction, ok bool, err error) {
	var v []byte
	if err = m.gone(); err == nil && m.store.pendingFilter.may(m.number, id) {
		err = m.store.finishPending(func(db *database) (err error) {
			v, ok, err = db.get(idKey(familyPending, m.number, id))
			return err
		})
	}
	if err != nil || !ok {
		return p, false, m.failed("look up a pending prediction", err)
	}
	expiry, value, err := splitTimed(v)
	if err != nil {
		return p, false, m.failed("look up a pending prediction", fmt.Errorf("id %q: %w", id, err))
	}
	return storage.Prediction{ID: id, Value: value, Expiry: time.Unix(0, expiry)}, true, nil
}

// RemovePending implements storage.Pending. A crash may bring rows back.
func (m *Model) RemovePending(ids []string) error {
	err := m.gone()
	if err == nil {
		err = m.store.removePending(appendRows(nil, m, ids))
	}
	return m.failed("remove pending predictions", err)
}

// pendingRow names a pending prediction.
type pendingRow struct {
	model *Model
	id    string
}

func appendRows(rows []pendingRow, m *Model, ids []string) []pendingRow {
	for _, id := range ids {
		rows = append(rows, pendingRow{m, id})
	}
	return rows
}

// removePending removes rows in one batch. A model that is deleted has none.
func (s *Store) removePending(rows []pendingRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.finishPending(func(db *database) error { return s.deletePending(db, rows) })
}

func (s *Store) deletePending(db *database, rows []pendingRow) error {
	if err := db.room(context.Background()); err != nil {
		return err
	}
	var looked stripeSet
	for _, r := range rows {
		s.rows.add(&looked, r.model.number, r.id)
	}
	defer s.rows.lock(looked)()
	removed := make(map[pendingRow]bool, len(rows))
	err := db.commit(pebble.NoSync, func(b *pebble.Batch) error {
		for _, r := range rows {
			if removed[r] || r.model.gone() != nil {
				continue
			}
			expiry, ok, err := db.timeOf(idKey(familyPending, r.model.number, r.id))
			if err == nil && ok {
				removed[r] = true
				err = deleteTimed(b, familyPending, familyExpiry, r.model.number, r.id, expiry)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for r := range removed {
		r.model.countPending(-1)
	}
	return nil
}

// tally counts the pending predictions of a model, and adds them to the tally of all models.
type tally struct {
	mu sync.Mutex
	n  atomic.Int64
	// closed: the model is no longer part of the sum.
	closed bool
}

func (m *Model) countPending(n int64) {
	m.pending.mu.Lock()
	defer m.pending.mu.Unlock()
	m.pending.n.Add(n)
	if !m.pending.closed {
		m.store.pendingCount.Add(n)
	}
}

func (m *Model) closeTally() {
	m.pending.mu.Lock()
	defer m.pending.mu.Unlock()
	if !m.pending.closed {
		m.store.pendingCount.Add(-m.pending.n.Load())
	}
	m.pending.closed = true
}

// CountPending implements storage.Upkeep.
func (s *Store) CountPending() int64 { return s.pendingCount.Load() + s.puts.rows.Load() }

// CountPending implements storage.Pending.
func (m *Model) CountPending() int64 {
	if m.gone() != nil {
		return 0
	}
	return m.pending.n.Load() + m.waiting.Load()
}

// EachPending implements storage.Pending. An inspected store with unreadable pending predictions has
// no rows.
func (m *Model) EachPending(ctx context.Context, f func(storage.Prediction) error) error {
	if err := m.gone(); err != nil {
		return m.failed("read the pending predictions", err)
	}
	// usePending could give rows twice.
	m.store.pending.RLock()
	defer m.store.pending.RUnlock()
	if m.store.pendingDB == nil {
		return nil
	}
	return m.each(ctx, m.store.pendingDB, familyPending, "read the pending predictions",
		func(id string, expiry time.Time, value []byte) error {
			return f(storage.Prediction{ID: id, Value: value, Expiry: expiry})
		})
}

// Expire implements storage.Upkeep, in portions. The end of ctx ends Expire between two. Expire
// calls f without a lock.
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
			return fmt.Errorf("store: expire pending predictions: %w", err)
		}
		lower = next
		for _, m := range dropped {
			f(m)
		}
	}
	err := s.pendingFilter.renew(s.CountPending(), func(add func(model uint64, id string)) error {
		return s.usePending(ctx, func(db *database) error { return db.eachPending(add) })
	})
	return failed("renew the filter of pending predictions", err)
}

// Time implements storage.Upkeep.
func (*Store) Time() time.Time { return time.Time{} }

// Due implements storage.Upkeep.
func (s *Store) Due(now, before time.Time, keep int) (due bool, err error) {
	if s.remembered.Load() > int64(keep) {
		old, err := s.logDB.agedBefore([]byte{familyIDAge}, key(familyIDAge, uint64(nanoseconds(before))), 1)
		if err != nil || len(old) > 0 {
			return true, err
		}
	}
	if s.CountPending() == 0 {
		return false, nil
	}
	err = s.finishPending(func(db *database) error {
		rows, err := db.agedBefore([]byte{familyExpiry}, key(familyExpiry, uint64(nanoseconds(now))+1), 1)
		due = len(rows) > 0
		return err
	})
	return due, err
}

func (db *database) eachPending(f func(model uint64, id string)) error {
	return db.scan([]byte{familyPending}, []byte{familyPending + 1}, func(k, _ []byte) (bool, error) {
		model, err := splitModel(k)
		if err != nil {
			return false, err
		}
		f(model, string(k[modelKeyLength:]))
		return true, nil
	})
}

// expireSome drops the due rows of a portion of the index from lower on. It returns the registered
// model of every dropped row, and the key of the next portion, nil at the end.
func (s *Store) expireSome(db *database, lower []byte, now time.Time) (models []*Model, next []byte, err error) {
	const all = ^uint64(0)
	defer s.rows.lock(stripeSet{all, all, all, all})()
	due, err := db.agedBefore(lower, key(familyExpiry, uint64(nanoseconds(now))+1), portion)
	if err != nil || len(due) == 0 {
		return nil, nil, err
	}
	if err := db.dropAged(familyPending, familyExpiry, due); err != nil {
		return nil, nil, err
	}
	for _, e := range due {
		m := s.handle(e.model)
		if m == nil {
			continue
		}
		m.countPending(-1)
		if m.stage.Load() == stageRegistered {
			models = append(models, m)
		}
	}
	return models, due[len(due)-1].after(familyExpiry), nil
}

func (s *Store) dropPending(ctx context.Context, model uint64) error {
	return s.usePending(ctx, func(db *database) error {
		if err := db.room(ctx); err != nil {
			return err
		}
		return db.commitUnsynced(func(b *pebble.Batch) error {
			lower, upper := modelRange(familyPending, model)
			return b.DeleteRange(lower, upper, nil)
		})
	})
}
