package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// Rewind implements storage.Log. It puts Rewind.IDs, and then takes four steps: it commits the intention durably;
// removes later snapshots and writes Rewind.Snapshot, durably; forgets the ids of what is undone; and cuts the log and
// deletes the intention in one synced batch. The end of ctx ends Rewind before the first step. After it only a failure
// does, and the intention stays for the next call.
//
// Under a position all steps but the last are synced. If a start finds the intention, the position is earlier than
// the rewind's, and the log completes the rewind by the same command.
//
// An id whose row is too short stays.
func (m *Model) Rewind(ctx context.Context, r storage.Rewind) (err error) {
	defer func() { err = m.failed("rewind the log", err) }()
	if r.Last != nil && (r.Last.Last != r.Sequence || r.Last.First > r.Last.Last) {
		return fmt.Errorf("the record of %d to %d does not end with sequence %d", r.Last.First, r.Last.Last, r.Sequence)
	}
	db := m.store.logDB
	if err := db.room(ctx); err != nil {
		return err
	}
	if err := m.putIDs(ctx, r.IDs, false, db.commitUnsynced); err != nil {
		return err
	}
	m.store.files.RLock()
	defer m.store.files.RUnlock()
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := errors.Join(context.Cause(ctx), m.gone()); err != nil {
		return err
	}
	if err := m.intend(r); err != nil {
		return err
	}
	if err := m.removeSnapshotsAfter(r.Sequence); err != nil {
		return err
	}
	if r.Snapshot != nil {
		if err := m.writeSnapshot(r.Sequence, r.Snapshot); err != nil {
			return err
		}
	}
	if r.Undone != nil {
		if err := m.store.dropIDs(context.WithoutCancel(ctx), m.number, r.Undone); err != nil {
			return err
		}
	}
	_, upper := modelRange(familyLog, m.number)
	m.beginChange()
	err = m.store.complete(ctx, db.commitDurably, func(b *pebble.Batch) error {
		if err := b.DeleteRange(key(familyLog, m.number, r.Sequence+1), upper, nil); err != nil {
			return err
		}
		if r.Last != nil {
			if err := setRecord(b, m.number, *r.Last); err != nil {
				return err
			}
		}
		return b.Delete(key(familyRewind, m.number), nil)
	})
	m.endChange(0, false)
	return err
}

// intend commits the intention to rewind, and its value. An earlier intention to rewind further has
// to be completed first.
func (m *Model) intend(r storage.Rewind) error {
	db := m.store.logDB
	value, ok, err := db.get(key(familyRewind, m.number))
	if err != nil {
		return err
	}
	if ok {
		if before, err := splitRewind(value); err == nil && before < r.Sequence {
			return fmt.Errorf("the rewind to sequence %d has to be completed first", before)
		}
	}
	return db.commitDurably(func(b *pebble.Batch) error {
		if r.Value != nil {
			if err := b.Set(registryKey(m.name), m.entry(r.Value), nil); err != nil {
				return err
			}
		}
		return b.Set(key(familyRewind, m.number), binary.BigEndian.AppendUint64(nil, r.Sequence), nil)
	})
}

// rewinds returns the intentions of all models. A sequence is nil if the intention is unreadable.
func (s *Store) rewinds() (map[uint64]*uint64, error) {
	out := map[uint64]*uint64{}
	err := s.logDB.scan([]byte{familyRewind}, []byte{familyRewind + 1}, func(k, v []byte) (bool, error) {
		model, err := splitModel(k)
		if err != nil {
			return false, err
		}
		out[model] = nil
		if sequence, err := splitRewind(v); err == nil {
			out[model] = &sequence
		}
		return true, nil
	})
	return out, err
}
