package store

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// ID implements storage.IDs.
func (m *Model) ID(id string) (value []byte, ok bool, err error) {
	if err := m.gone(); err != nil {
		return nil, false, m.failed("look up an id", err)
	}
	if !m.store.filter.may(m.number, id) {
		return nil, false, nil
	}
	v, ok, err := m.store.logDB.get(idKey(familyID, m.number, id))
	if err != nil || !ok {
		return nil, false, m.failed("look up an id", err)
	}
	if _, value, err = splitTimed(v); err != nil {
		return nil, false, m.failed(fmt.Sprintf("look up the id %q", id), err)
	}
	return value, true, nil
}

// PutIDs implements storage.IDs. PutIDs looks every id up first.
func (m *Model) PutIDs(ctx context.Context, ids []storage.ID) error {
	db := m.store.logDB
	return m.failed("remember ids", m.putIDs(ctx, ids, false, func(fill func(*pebble.Batch) error) error {
		return m.store.complete(ctx, db.commitUnsynced, fill)
	}))
}

// putIDs remembers ids, through commit. It does not look minted ids up, because they are new and distinct.
func (m *Model) putIDs(ctx context.Context, ids []storage.ID, minted bool, commit func(func(*pebble.Batch) error) error) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	s := m.store
	if err := s.logDB.room(ctx); err != nil {
		return err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	if err := m.gone(); err != nil {
		return err
	}
	fresh := 0
	s.filter.committing.RLock()
	defer s.filter.committing.RUnlock()
	err := commit(func(b *pebble.Batch) (err error) {
		fresh, err = m.fillIDs(b, ids, minted)
		return err
	})
	if err != nil {
		return err
	}
	s.remembered.Add(int64(fresh))
	return nil
}

// fillIDs puts ids into a batch, deletes the index entries that ids which are not minted had before, and
// returns how many ids are new. The caller holds Store.filter.committing until the commit has ended.
func (m *Model) fillIDs(b *pebble.Batch, ids []storage.ID, minted bool) (fresh int, err error) {
	var batched batched
	if !minted {
		batched = newBatched(len(ids))
	}
	for _, id := range ids {
		replaced := false
		if !minted {
			replaced, err = batched.replace(m.store.logDB, b, familyID, familyIDAge, m.number, id.ID, nanoseconds(id.At))
		}
		if err == nil {
			m.store.filter.add(m.number, id.ID)
			err = setTimed(b, familyID, familyIDAge, m.number, id.ID, nanoseconds(id.At), id.Value)
		}
		if err != nil {
			return 0, err
		}
		if !replaced {
			fresh++
		}
	}
	return fresh, nil
}

// batched holds the times of the rows of an unfinished batch, so that an id that comes twice
// in one call is known the second time. A batch of one row needs no map.
type batched map[string]int64

func newBatched(rows int) batched {
	if rows < 2 {
		return nil
	}
	return make(batched, rows)
}

func (b batched) put(id string, at int64) {
	if b != nil {
		b[id] = at
	}
}

// replace prepares that a row is put under an id with a time: it deletes the index entry of the
// row's previous time, and reports whether there was a row.
func (b batched) replace(db *database, to *pebble.Batch, row, index byte, model uint64, id string, at int64) (replaced bool, err error) {
	old, ok := b[id]
	if !ok {
		if old, ok, err = db.timeOf(idKey(row, model, id)); err != nil {
			return false, err
		}
	}
	if ok && old != at {
		if err := to.Delete(agedKey(index, old, model, id), nil); err != nil {
			return false, err
		}
	}
	b.put(id, at)
	return ok, nil
}

// EachID implements storage.IDs.
func (m *Model) EachID(ctx context.Context, f func(storage.ID) error) error {
	if err := m.gone(); err != nil {
		return m.failed("read the ids", err)
	}
	return m.each(ctx, m.store.logDB, familyID, "read the ids", func(id string, at time.Time, value []byte) error {
		return f(storage.ID{ID: id, At: at, Value: value})
	})
}

// each calls f for every row of the model in a family, and returns errors of f unchanged.
func (m *Model) each(
	ctx context.Context, db *database, family byte, what string, f func(id string, at time.Time, value []byte) error,
) error {
	lower, upper := modelRange(family, m.number)
	return db.walk(ctx, lower, upper, func(k, v []byte) error {
		id := string(k[modelKeyLength:])
		at, value, err := splitTimed(v)
		if err != nil {
			return m.failed(what, fmt.Errorf("id %q: %w", id, err))
		}
		return f(id, time.Unix(0, at), value)
	}, func(err error) error { return m.failed(what, err) })
}

// Forget implements storage.Upkeep, in portions. The end of ctx ends Forget between two.
func (s *Store) Forget(ctx context.Context, before time.Time, keep int) error {
	lower := []byte{familyIDAge}
	for lower != nil {
		err := context.Cause(ctx)
		if err == nil {
			err = s.logDB.room(ctx)
		}
		if err == nil {
			lower, err = s.forgetSome(lower, before, keep)
		}
		if err != nil {
			return fmt.Errorf("store: forget old ids: %w", err)
		}
	}
	return failed("renew the filter of ids", s.filter.renew(s.remembered.Load(), s.eachRemembered))
}

// eachRemembered calls add for every remembered id of all models. An id and its index entry are put and
// deleted in one batch.
func (s *Store) eachRemembered(add func(model uint64, id string)) error {
	return s.logDB.scan([]byte{familyIDAge}, []byte{familyIDAge + 1}, func(k, _ []byte) (bool, error) {
		_, model, id, err := splitAged(k)
		if err != nil {
			return false, err
		}
		add(model, id)
		return true, nil
	})
}

// forgetSome drops a portion of the oldest ids of the index from lower on. It returns the key of
// the next portion, nil if no more ids may be dropped.
func (s *Store) forgetSome(lower []byte, before time.Time, keep int) (next []byte, err error) {
	s.ids.Lock()
	defer s.ids.Unlock()
	limit := min(portion, int(s.remembered.Load())-keep)
	if limit <= 0 {
		return nil, nil
	}
	old, err := s.logDB.agedBefore(lower, key(familyIDAge, uint64(nanoseconds(before))), limit)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	if err := s.logDB.dropAged(familyID, familyIDAge, old); err != nil {
		return nil, err
	}
	s.remembered.Add(-int64(len(old)))
	return old[len(old)-1].after(familyIDAge), nil
}

// dropIDs drops the ids of a model whose value fits, all ids if fits is nil. A row that is too
// short to have a value is dropped only if fits is nil. The sweep works in portions and does not
// wait for the disk.
func (s *Store) dropIDs(ctx context.Context, model uint64, fits func(value []byte) bool) error {
	lower, upper := modelRange(familyID, model)
	for lower != nil {
		if err := s.logDB.room(ctx); err != nil {
			return err
		}
		next, err := s.dropSomeIDs(model, lower, upper, fits)
		if err != nil {
			return err
		}
		lower = next
	}
	return nil
}

// dropSomeIDs drops ids of a portion, and returns the key of the next portion, nil at the end.
func (s *Store) dropSomeIDs(model uint64, lower, upper []byte, fits func([]byte) bool) (next []byte, err error) {
	s.ids.Lock()
	defer s.ids.Unlock()
	dropped, through := int64(0), 0
	err = s.logDB.commit(pebble.NoSync, func(b *pebble.Batch) error {
		return s.logDB.scan(lower, upper, func(k, v []byte) (bool, error) {
			if through == portion {
				next = append([]byte(nil), k...)
				return false, nil
			}
			through++
			at, value, err := splitTimed(v)
			readable := err == nil
			switch {
			case fits == nil && !readable:
				return true, b.Delete(k, nil)
			case fits != nil && (!readable || !fits(value)):
				return true, nil
			}
			dropped++
			return true, deleteTimed(b, familyID, familyIDAge, model, string(k[modelKeyLength:]), at)
		})
	})
	if err != nil {
		return nil, err
	}
	s.remembered.Add(-dropped)
	return next, nil
}
