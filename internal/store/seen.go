package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Seen is what is remembered of a learned observation under its id.
type Seen struct {
	ID    string
	Value []byte
}

// PutSeen remembers ids, at a time. It does not wait for the disk: what it
// wrote is durable after Sync, or any later Append. An id that was remembered
// before is remembered anew, at the new time. It reads every id first.
func (s *Store) PutSeen(m Model, at time.Time, entries []Seen) error {
	s.seen.RLock()
	defer s.seen.RUnlock()
	fresh := 0
	err := s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) (err error) {
		fresh, err = s.fillSeen(b, m, nanoseconds(at), entries)
		return err
	})
	if err == nil {
		s.remembered.Add(int64(fresh))
	}
	return err
}

// AddSeen is PutSeen for ids that are not remembered, each of which comes once:
// it does not read.
func (s *Store) AddSeen(m Model, at time.Time, entries []Seen) error {
	s.seen.RLock()
	defer s.seen.RUnlock()
	err := s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range entries {
			if err := setSeen(b, m, nanoseconds(at), e); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.remembered.Add(int64(len(entries)))
	}
	return err
}

func setSeen(b *pebble.Batch, m Model, at int64, e Seen) error {
	if err := checkID(e.ID); err != nil {
		return err
	}
	if err := b.Set(agedKey(familySeenAge, at, m, e.ID), nil, nil); err != nil {
		return err //nolint:wrapcheck // write does.
	}
	return b.Set(idKey(familySeen, m, e.ID), timed(at, e.Value), nil) //nolint:wrapcheck // write does.
}

func (s *Store) fillSeen(b *pebble.Batch, m Model, at int64, entries []Seen) (fresh int, err error) {
	var twice map[string]bool // Ids of this call, of which the last counts.
	if len(entries) > 1 {
		twice = make(map[string]bool, len(entries))
	}
	for _, e := range entries {
		old, ok, err := seenTime(s.logDB, idKey(familySeen, m, e.ID))
		if err != nil {
			return 0, err
		}
		if !ok && !twice[e.ID] {
			fresh++
		}
		if twice != nil {
			twice[e.ID] = true
		}
		if ok && old != at {
			if err := b.Delete(agedKey(familySeenAge, old, m, e.ID), nil); err != nil {
				return 0, err //nolint:wrapcheck // write does.
			}
		}
		if err := setSeen(b, m, at, e); err != nil {
			return 0, err
		}
	}
	return fresh, nil
}

// seenTime is when an id was remembered.
func seenTime(db *database, id []byte) (at int64, ok bool, err error) {
	v, closer, err := db.Get(id)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("store: read: %w", err)
	}
	at, _, err = splitTimed(v)
	return at, err == nil, errors.Join(err, closer.Close())
}

// GetSeen gives what is remembered under an id.
func (s *Store) GetSeen(m Model, id string) (value []byte, ok bool, err error) {
	v, ok, err := get(s.logDB, idKey(familySeen, m, id))
	if err != nil || !ok {
		return nil, false, err
	}
	_, value, err = splitTimed(v)
	return value, err == nil, err
}

// ForgetSeen drops ids remembered before a time, the oldest first, as long as
// more than keep are left over all models; at most limit in one call. It
// tells how many it dropped: fewer than limit means that there is no more to
// drop. It does not wait for the disk: a crash may bring them back.
func (s *Store) ForgetSeen(before time.Time, keep, limit int) (forgotten int, err error) {
	for forgotten < limit {
		through, dropped, err := s.forgetSome(before, keep, min(sweepPortion, limit-forgotten))
		forgotten += dropped
		if err != nil || through == 0 {
			return forgotten, err
		}
	}
	return forgotten, nil
}

func (s *Store) forgetSome(before time.Time, keep, limit int) (through, dropped int, err error) {
	s.seen.Lock()
	defer s.seen.Unlock()
	if limit = min(limit, int(s.remembered.Load())-keep); limit <= 0 {
		return 0, 0, nil
	}
	old, err := agedBefore(s.logDB, familySeenAge, nanoseconds(before), limit)
	if err != nil || len(old) == 0 {
		return 0, 0, err
	}
	err = s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range old {
			if err := b.Delete(agedKey(familySeenAge, e.at, e.m, e.id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			id := idKey(familySeen, e.m, e.id)
			// An entry that does not belong to what is remembered now goes
			// alone.
			at, ok, err := seenTime(s.logDB, id)
			if err != nil {
				return err
			}
			if !ok || at != e.at {
				continue
			}
			dropped++
			if err := b.Delete(id, nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	s.remembered.Add(-int64(dropped))
	return len(old), dropped, nil
}

// dropSeen forgets all ids of a model, in portions; counted says that they are
// counted as remembered. It does not wait for the disk.
func (s *Store) dropSeen(m Model, counted bool) error {
	for {
		n, err := s.dropSomeSeen(m)
		if counted {
			s.remembered.Add(-int64(n))
		}
		if err != nil || n < sweepPortion {
			return err
		}
	}
}

// ForgetWhere drops the ids of a model whose value is such. It reads all of them,
// and does not wait for the disk.
func (s *Store) ForgetWhere(m Model, such func(value []byte) (bool, error)) error {
	lower, upper := modelRange(familySeen, m)
	for lower != nil {
		var err error
		if lower, err = s.forgetPortion(m, lower, upper, such); err != nil {
			return err
		}
	}
	return nil
}

// forgetPortion goes through some ids and tells where the next begin, nil at
// the end.
func (s *Store) forgetPortion(m Model, lower, upper []byte, such func(value []byte) (bool, error)) (next []byte, err error) {
	s.seen.Lock()
	defer s.seen.Unlock()
	dropped, through := int64(0), 0
	err = s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		return scan(s.logDB, lower, upper, func(k, v []byte) (bool, error) {
			if through == sweepPortion {
				next = append([]byte(nil), k...)
				return false, nil
			}
			through++
			at, value, err := splitTimed(v)
			if err != nil {
				return false, err
			}
			drop, err := such(value)
			if err != nil || !drop {
				return true, err
			}
			dropped++
			if err := b.Delete(agedKey(familySeenAge, at, m, string(k[9:])), nil); err != nil {
				return false, err //nolint:wrapcheck // write does.
			}
			return true, b.Delete(k, nil)
		})
	})
	if err != nil {
		return nil, err
	}
	s.remembered.Add(-dropped)
	return next, nil
}

func (s *Store) dropSomeSeen(m Model) (n int, err error) {
	s.seen.Lock()
	defer s.seen.Unlock()
	lower, upper := modelRange(familySeen, m)
	err = s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		return scan(s.logDB, lower, upper, func(k, v []byte) (bool, error) {
			at, _, err := splitTimed(v)
			if err != nil {
				return false, err
			}
			if err := b.Delete(agedKey(familySeenAge, at, m, string(k[9:])), nil); err != nil {
				return false, err //nolint:wrapcheck // write does.
			}
			n++
			return n < sweepPortion, b.Delete(k, nil)
		})
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// countSeen counts the remembered ids of the models that are known, in one
// walk through the index of their ages, and finds those of deleted models.
func (s *Store) countSeen(known map[Model]bool) (left map[Model]bool, err error) {
	n := int64(0)
	left = make(map[Model]bool)
	err = scan(s.logDB, []byte{familySeenAge}, []byte{familySeenAge + 1}, func(k, _ []byte) (bool, error) {
		_, m, _, err := splitAged(k)
		if err != nil {
			return false, err
		}
		if known[m] {
			n++
		} else {
			left[m] = true
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("store: count remembered ids: %w", err)
	}
	s.remembered.Store(n)
	return left, nil
}
