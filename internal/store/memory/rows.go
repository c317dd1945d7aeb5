package memory

import (
	"bytes"
	"context"
	"fmt"
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
func (m *Model) PutIDs(ids []storage.ID) error {
	return m.locked("remember ids", func() error { return m.putIDs(ids) })
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
	var all []storage.ID
	err := m.locked("read the ids", func() error {
		for _, id := range m.ids {
			all = append(all, id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b storage.ID) int { return strings.Compare(a.ID, b.ID) })
	for _, id := range all {
		if err := context.Cause(ctx); err != nil {
			return m.failed("read the ids", err)
		}
		id.Value = bytes.Clone(id.Value)
		if err := f(id); err != nil {
			return err
		}
	}
	return nil
}

// PutWaiting implements storage.Waiting.
func (m *Model) PutWaiting(rows []storage.Prediction) error {
	return m.locked("keep waiting predictions", func() error { return m.putWaiting(rows) })
}

func (m *Model) putWaiting(rows []storage.Prediction) error {
	for n := range rows {
		if err := checkID(rows[n].ID); err != nil {
			return err
		}
	}
	for _, p := range rows {
		id := strings.Clone(p.ID)
		if _, there := m.waiting[id]; !there {
			m.store.mu.waiting++
		}
		m.waiting[id] = storage.Prediction{ID: id, Value: bytes.Clone(p.Value), Expiry: p.Expiry}
	}
	return nil
}

// GetWaiting implements storage.Waiting.
func (m *Model) GetWaiting(id string) (p storage.Prediction, ok bool, err error) {
	err = m.locked("look up a waiting prediction", func() error {
		p, ok = m.waiting[id]
		p.Value = bytes.Clone(p.Value)
		return nil
	})
	return p, ok, err
}

// RemoveWaiting implements storage.Waiting.
func (m *Model) RemoveWaiting(ids []string) error {
	return m.locked("remove waiting predictions", func() error {
		for _, id := range ids {
			if _, there := m.waiting[id]; there {
				delete(m.waiting, id)
				m.store.mu.waiting--
			}
		}
		return nil
	})
}

// CountWaiting implements storage.Waiting.
func (m *Model) CountWaiting() int64 {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	return int64(len(m.waiting))
}

// EachWaiting implements storage.Waiting, in the order of the ids.
func (m *Model) EachWaiting(ctx context.Context, f func(storage.Prediction) error) error {
	var all []storage.Prediction
	err := m.locked("read the waiting predictions", func() error {
		for _, p := range m.waiting {
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b storage.Prediction) int { return strings.Compare(a.ID, b.ID) })
	for _, p := range all {
		if err := context.Cause(ctx); err != nil {
			return m.failed("read the waiting predictions", err)
		}
		p.Value = bytes.Clone(p.Value)
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
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

// snapshot finds a snapshot and runs a function under the store's lock.
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

// SetSnapshotAside implements storage.Snapshots. It drops the snapshot: a
// snapshot that is set aside in memory could not be read.
func (m *Model) SetSnapshotAside(sequence uint64) (place string, err error) {
	err = m.snapshot("set aside", sequence, func(snapshot) {
		delete(m.snapshots, sequence)
		place = m.place(sequence) + ".aside"
	})
	return place, err
}
