package store

import (
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
// wrote is durable after Sync, or any later Append.
func (s *Store) PutSeen(m Model, at time.Time, entries []Seen) error {
	fresh := int64(0)
	err := s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range entries {
			if err := checkID(e.ID); err != nil {
				return err
			}
			age := agedKey(familySeenAge, at.UnixNano(), m, e.ID)
			_, closer, err := s.logDB.Get(age)
			if err == nil {
				if err := closer.Close(); err != nil {
					return err //nolint:wrapcheck // write does.
				}
			} else {
				fresh++ // Not there, or not readable: counted at the worst once too often.
			}
			if err := b.Set(age, nil, nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			if err := b.Set(idKey(familySeen, m, e.ID), timed(at.UnixNano(), e.Value), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
		}
		return nil
	})
	if err == nil {
		s.remembered.Add(fresh)
	}
	return err
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
// tells how many it dropped.
func (s *Store) ForgetSeen(before time.Time, keep, limit int) (forgotten int, err error) {
	surplus := int(s.remembered.Load()) - keep
	if limit = min(limit, surplus); limit <= 0 {
		return 0, nil
	}
	var aged [][]byte
	err = scan(s.logDB, []byte{familySeenAge}, key(familySeenAge, uint64(before.UnixNano())), func(k, _ []byte) (bool, error) {
		aged = append(aged, append([]byte{}, k...))
		return len(aged) < limit, nil
	})
	if err != nil || len(aged) == 0 {
		return 0, err
	}
	err = s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		for _, k := range aged {
			at, m, id, err := splitAged(k)
			if err != nil {
				return err
			}
			if err := b.Delete(k, nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
			// Remembered again at another time, the id stays.
			v, ok, err := get(s.logDB, idKey(familySeen, m, id))
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if kept, _, err := splitTimed(v); err != nil || kept != at {
				continue
			}
			if err := b.Delete(idKey(familySeen, m, id), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.remembered.Add(-int64(len(aged)))
	return len(aged), nil
}

// countSeen counts the age index once.
func (s *Store) countSeen() error {
	n := int64(0)
	err := scan(s.logDB, []byte{familySeenAge}, []byte{familySeenAge + 1}, func([]byte, []byte) (bool, error) {
		n++
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("store: count remembered ids: %w", err)
	}
	s.remembered.Store(n)
	return nil
}
