package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Pending is a prediction that waits for its label.
type Pending struct {
	ID     string
	Value  []byte
	Expiry time.Time
}

// PutPending keeps predictions. On return they survive the end of the
// process; a power cut within the next second may lose them, unless
// Options.PendingSync is set.
func (s *Store) PutPending(m Model, entries []Pending) error {
	s.waiting.RLock()
	defer s.waiting.RUnlock()
	return s.write(s.pendingDB, pebble.Sync, func(b *pebble.Batch) error {
		for _, e := range entries {
			if err := checkID(e.ID); err != nil {
				return err
			}
			expiry := nanoseconds(e.Expiry)
			if err := b.Set(idKey(familyPending, m, e.ID), timed(expiry, e.Value), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			if err := b.Set(agedKey(familyExpiry, expiry, m, e.ID), nil, nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
		}
		return nil
	})
}

// GetPending gives the prediction kept under an id, expired or not.
func (s *Store) GetPending(m Model, id string) (Pending, bool, error) {
	v, ok, err := get(s.pendingDB, idKey(familyPending, m, id))
	if err != nil || !ok {
		return Pending{}, false, err
	}
	expiry, value, err := splitTimed(v)
	return Pending{ID: id, Value: value, Expiry: time.Unix(0, expiry)}, err == nil, err
}

// RemovePending drops predictions, and tells how many were there. It waits for
// nothing: a crash may bring them back.
func (s *Store) RemovePending(m Model, ids []string) (removed int, err error) {
	err = s.write(s.pendingDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, id := range ids {
			p, ok, err := s.GetPending(m, id)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := b.Delete(idKey(familyPending, m, id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			if err := b.Delete(agedKey(familyExpiry, nanoseconds(p.Expiry), m, id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// ExpirePending drops predictions whose expiry is not after now, at most
// limit in one call, and calls f for each. It tells how many index entries it
// went through: fewer than limit means that there are no more. It does not
// wait for the disk.
func (s *Store) ExpirePending(now time.Time, limit int, f func(m Model, id string)) (int, error) {
	through := 0
	for through < limit {
		portion := min(sweepPortion, limit-through)
		due, dropped, err := s.expireSome(now, portion)
		if err != nil {
			return through, err
		}
		for _, e := range dropped {
			f(e.m, e.id)
		}
		through += due
		if due < portion {
			break
		}
	}
	return through, nil
}

// sweepPortion bounds how long a sweep keeps writers waiting.
const sweepPortion = 256

// aged is an entry of an index by time.
type aged struct {
	at int64
	m  Model
	id string
}

// agedBefore reads the oldest entries of an index, before a time.
func agedBefore(db *database, family byte, end int64, limit int) (out []aged, err error) {
	err = scan(db, []byte{family}, key(family, uint64(end)), func(k, _ []byte) (bool, error) {
		at, m, id, err := splitAged(k)
		if err != nil {
			return false, err
		}
		out = append(out, aged{at, m, id})
		return len(out) < limit, nil
	})
	return out, err
}

func (s *Store) expireSome(now time.Time, limit int) (through int, dropped []aged, err error) {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	due, err := agedBefore(s.pendingDB, familyExpiry, nanoseconds(now)+1, limit)
	if err != nil || len(due) == 0 {
		return 0, nil, err
	}
	err = s.write(s.pendingDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range due {
			if err := b.Delete(agedKey(familyExpiry, e.at, e.m, e.id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			// Answered, or kept again with another expiry, it is not due.
			p, ok, err := s.GetPending(e.m, e.id)
			if err != nil {
				return err
			}
			if !ok || nanoseconds(p.Expiry) != e.at {
				continue
			}
			if err := b.Delete(idKey(familyPending, e.m, e.id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			dropped = append(dropped, e)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return len(due), dropped, nil
}

// CountPending counts the predictions of every model that has any. It reads
// every key.
func (s *Store) CountPending() (map[Model]int, error) {
	counts := map[Model]int{}
	err := scan(s.pendingDB, []byte{familyPending}, []byte{familyPending + 1}, func(k, _ []byte) (bool, error) {
		m, err := splitModel(k)
		if err == nil {
			counts[m]++
		}
		return true, err
	})
	return counts, err
}
