package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hindsight/internal/engine/storage"
)

func checkID(id string) error {
	if len(id) > storage.MaxID {
		return fmt.Errorf("%w: %d bytes, at most %d", storage.ErrInvalidID, len(id), storage.MaxID)
	}
	return nil
}

// ID implements storage.IDs.
func (m *Model) ID(id string) (value []byte, ok bool, err error) {
	err = m.locked("look up an id", func() error {
		var e storage.ID
		e, ok = m.ids[id]
		value = bytes.Clone(e.Value)
		return nil
	})
	return value, ok, err
}

// PutIDs implements storage.IDs.
func (m *Model) PutIDs(ctx context.Context, ids []storage.ID) error {
	return m.change(ctx, "remember ids", func() error { return m.putIDs(ids) })
}

func (m *Model) putIDs(ids []storage.ID) error {
	for _, id := range ids {
		if err := checkID(id.ID); err != nil {
			return err
		}
	}
	for _, id := range ids {
		id.ID, id.Value = strings.Clone(id.ID), bytes.Clone(id.Value)
		m.ids[id.ID] = id
	}
	return nil
}

// EachID implements storage.IDs, in the order of the ids.
func (m *Model) EachID(ctx context.Context, f func(storage.ID) error) error {
	return each(ctx, m, "read the ids", func() map[string]storage.ID { return m.ids }, func(id storage.ID) error {
		id.Value = bytes.Clone(id.Value)
		return f(id)
	})
}

// each calls f for every row of a map, in the order of the keys.
func each[T any](ctx context.Context, m *Model, what string, rows func() map[string]T, f func(T) error) error {
	var all map[string]T
	err := m.locked(what, func() error {
		all = maps.Clone(rows())
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := context.Cause(ctx); err != nil {
			return m.failed(what, err)
		}
		if err := f(all[key]); err != nil {
			return err
		}
	}
	return nil
}

// PutWaiting implements storage.Waiting.
func (m *Model) PutWaiting(rows []storage.Prediction) error {
	return m.locked("keep pending predictions", func() error { return m.putPending(rows) })
}

func (m *Model) putPending(rows []storage.Prediction) error {
	for n := range rows {
		if err := checkID(rows[n].ID); err != nil {
			return err
		}
	}
	for _, p := range rows {
		id := strings.Clone(p.ID)
		if _, there := m.pending[id]; !there {
			m.store.mu.pending++
		}
		m.pending[id] = storage.Prediction{ID: id, Value: bytes.Clone(p.Value), Expiry: p.Expiry}
	}
	return nil
}

// GetWaiting implements storage.Waiting.
func (m *Model) GetWaiting(id string) (p storage.Prediction, ok bool, err error) {
	err = m.locked("look up a pending prediction", func() error {
		p, ok = m.pending[id]
		p.Value = bytes.Clone(p.Value)
		return nil
	})
	return p, ok, err
}

// RemoveWaiting implements storage.Waiting.
func (m *Model) RemoveWaiting(ids []string) error {
	return m.locked("remove pending predictions", func() error {
		for _, id := range ids {
			m.removePending(id)
		}
		return nil
	})
}

// removePending removes a prediction if it exists. The caller holds the lock.
func (m *Model) removePending(id string) {
	if _, there := m.pending[id]; there {
		delete(m.pending, id)
		m.store.mu.pending--
	}
}

// CountWaiting implements storage.Waiting.
func (m *Model) CountWaiting() int64 {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	return int64(len(m.pending))
}

// EachWaiting implements storage.Waiting, in the order of the ids.
func (m *Model) EachWaiting(ctx context.Context, f func(storage.Prediction) error) error {
	return each(ctx, m, "read the pending predictions", func() map[string]storage.Prediction { return m.pending }, func(p storage.Prediction) error {
		p.Value = bytes.Clone(p.Value)
		return f(p)
	})
}

// Snapshots implements storage.Snapshots.
func (m *Model) Snapshots() (sequences []uint64, err error) {
	err = m.locked("list the snapshots", func() error {
		for sequence := range m.snapshots {
			sequences = append(sequences, sequence)
		}
		return nil
	})
	slices.Sort(sequences)
	slices.Reverse(sequences)
	return sequences, err
}

// WriteSnapshot implements storage.Snapshots.
func (m *Model) WriteSnapshot(sequence uint64, data []byte) error {
	return m.locked("write a snapshot", func() error {
		m.snapshots[sequence] = snapshot{bytes.Clone(data), m.store.now()}
		return nil
	})
}

// snapshot calls f with a snapshot, under the lock of the store.
func (m *Model) snapshot(what string, sequence uint64, f func(snapshot)) error {
	return m.locked(fmt.Sprintf("%s the snapshot %d", what, sequence), func() error {
		s, ok := m.snapshots[sequence]
		if !ok {
			return storage.ErrNotFound
		}
		f(s)
		return nil
	})
}

// ReadSnapshot implements storage.Snapshots.
func (m *Model) ReadSnapshot(sequence uint64) (data []byte, err error) {
	err = m.snapshot("read", sequence, func(s snapshot) { data = append([]byte{}, s.data...) })
	return data, err
}

// StatSnapshot implements storage.Snapshots.
func (m *Model) StatSnapshot(sequence uint64, head int) (out storage.SnapshotFile, err error) {
	err = m.snapshot("describe", sequence, func(s snapshot) {
		out = storage.SnapshotFile{
			Bytes: int64(len(s.data)), Created: s.created, Place: m.place(sequence),
			Head: append([]byte{}, s.data[:min(max(head, 0), len(s.data))]...),
		}
	})
	return out, err
}

func (m *Model) place(sequence uint64) string { return fmt.Sprintf("memory/%s/%d", m.name, sequence) }

// RemoveSnapshot implements storage.Snapshots.
func (m *Model) RemoveSnapshot(sequence uint64) error {
	return m.snapshot("remove", sequence, func(snapshot) { delete(m.snapshots, sequence) })
}

// SetSnapshotAside implements storage.Snapshots. It drops the snapshot.
func (m *Model) SetSnapshotAside(sequence uint64) (place string, err error) {
	err = m.snapshot("set aside", sequence, func(snapshot) {
		delete(m.snapshots, sequence)
		place = m.place(sequence) + ".aside"
	})
	return place, err
}
