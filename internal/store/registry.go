package store

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// CreateModel registers a name with a value and gives it a number no model
// had before. It is durable on return.
func (s *Store) CreateModel(name string, value []byte) (Model, error) {
	s.registry.Lock()
	defer s.registry.Unlock()
	m, err := s.nextModel(name)
	if err != nil {
		return 0, err
	}
	return m, s.register(name, m, value, nil)
}

// ImportModel is CreateModel for a model that begins with a snapshot at a
// sequence, which is there, and in the log as a record without data, when the
// name is.
func (s *Store) ImportModel(name string, value []byte, sequence uint64, snapshot []byte) (Model, error) {
	s.registry.Lock()
	defer s.registry.Unlock()
	m, err := s.nextModel(name)
	if err != nil {
		return 0, err
	}
	// What a crash leaves of a number without a name is removed at a start;
	// what a failure before left, here.
	if err := s.removeAll(s.path(snapshots, number(m))); err != nil {
		return 0, err
	}
	if err := s.WriteSnapshot(m, sequence, snapshot); err != nil {
		return 0, err
	}
	if sequence == 0 {
		return m, s.register(name, m, value, nil)
	}
	return m, s.register(name, m, value, &Record{First: sequence, Last: sequence})
}

// nextModel is the number of a new name. The registry is locked.
func (s *Store) nextModel(name string) (Model, error) {
	if _, ok, err := s.lookUp(name); err != nil {
		return 0, err
	} else if ok {
		return 0, fmt.Errorf("%w: %q", ErrModelExists, name)
	}
	newest, ok, err := get(s.logDB, []byte{familyNumber})
	if err != nil || !ok {
		return 1, err
	}
	if len(newest) != 8 {
		return 0, fmt.Errorf("store: newest model number of %d bytes, want 8", len(newest))
	}
	return Model(binary.BigEndian.Uint64(newest) + 1), nil
}

// register makes a name durable, and the record that its log begins with.
func (s *Store) register(name string, m Model, value []byte, begin *Record) error {
	encoded := binary.BigEndian.AppendUint64(nil, uint64(m))
	err := s.write(s.logDB, pebble.Sync, func(b *pebble.Batch) error {
		if err := b.Set([]byte{familyNumber}, encoded, nil); err != nil {
			return err //nolint:wrapcheck // write does.
		}
		if begin != nil {
			if err := b.Set(key(familyLog, uint64(m), begin.Last), begin.encode(), nil); err != nil {
				return err //nolint:wrapcheck // write does.
			}
		}
		return b.Set(registryKey(name), append(encoded, value...), nil)
	})
	if err == nil {
		s.last.Delete(m)
	}
	return err
}

func registryKey(name string) []byte { return append([]byte{familyRegistry}, name...) }

func (s *Store) lookUp(name string) (Model, bool, error) {
	entry, ok, err := get(s.logDB, registryKey(name))
	if err != nil || !ok {
		return 0, false, err
	}
	m, _, err := splitEntry(entry)
	return m, err == nil, err
}

func splitEntry(entry []byte) (Model, []byte, error) {
	if len(entry) < 8 {
		return 0, nil, fmt.Errorf("store: registry entry of %d bytes, want at least 8", len(entry))
	}
	return Model(binary.BigEndian.Uint64(entry)), entry[8:], nil
}

// DeleteModel forgets a name and all that is kept under its number. The model
// is gone, durably, on return; what a crash leaves behind is cleaned up when
// the store is opened again. Nobody may be using the model. It takes time in
// proportion to the ids that the model remembers.
func (s *Store) DeleteModel(name string) error {
	s.registry.Lock()
	defer s.registry.Unlock()
	m, ok, err := s.lookUp(name)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: %q", ErrModelNotFound, name)
	}
	err = s.write(s.logDB, pebble.Sync, func(b *pebble.Batch) error {
		lower, upper := modelRange(familyLog, m)
		if err := b.DeleteRange(lower, upper, nil); err != nil {
			return err //nolint:wrapcheck // write does.
		}
		return b.Delete(registryKey(name), nil)
	})
	if err != nil {
		return err
	}
	s.last.Delete(m)
	if err := s.dropSeen(m, true); err != nil {
		return err
	}
	if err := s.dropPending(m); err != nil {
		return err
	}
	return s.removeAll(s.path(snapshots, number(m)))
}

func number(m Model) string { return strconv.FormatUint(uint64(m), 10) }

func (s *Store) dropPending(m Model) error {
	return s.write(s.pendingDB, pebble.NoSync, func(b *pebble.Batch) error {
		lower, upper := modelRange(familyPending, m)
		return b.DeleteRange(lower, upper, nil)
	})
}

func (s *Store) removeAll(path string) error {
	if err := s.fs.RemoveAll(path); err != nil {
		return fmt.Errorf("store: remove %s: %w", path, err)
	}
	return nil
}

// Models calls f for every model in the order of the names. The value is
// valid during the call only.
func (s *Store) Models(f func(name string, m Model, value []byte) error) error {
	return scan(s.logDB, []byte{familyRegistry}, []byte{familyRegistry + 1}, func(k, v []byte) (bool, error) {
		m, value, err := splitEntry(v)
		if err != nil {
			return false, err
		}
		return true, f(string(k[1:]), m, value)
	})
}

// clean removes what crashes left: data of models that are not registered and
// snapshots that were not finished.
func (s *Store) clean() error {
	known := map[Model]bool{}
	err := s.Models(func(_ string, m Model, _ []byte) error {
		known[m] = true
		return nil
	})
	if err != nil {
		return err
	}
	left, err := s.countSeen(known)
	if err != nil {
		return err
	}
	for m := range left {
		if err := s.dropSeen(m, false); err != nil {
			return err
		}
	}
	if err := s.cleanPending(known); err != nil {
		return err
	}
	directories, err := s.fs.List(s.path(snapshots))
	if err != nil {
		return fmt.Errorf("store: list snapshots: %w", err)
	}
	for _, d := range directories {
		n, err := strconv.ParseUint(d, 10, 64)
		if err != nil {
			continue // Not one of ours.
		}
		if !known[Model(n)] {
			if err := s.removeAll(s.path(snapshots, d)); err != nil {
				return err
			}
			continue
		}
		if err := s.cleanUnfinished(s.path(snapshots, d)); err != nil {
			return err
		}
	}
	return nil
}

// cleanUnfinished removes the snapshots of a directory that were not finished.
func (s *Store) cleanUnfinished(directory string) error {
	files, err := s.fs.List(directory)
	if err != nil {
		return fmt.Errorf("store: list snapshots: %w", err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, temporarySuffix) {
			if err := s.removeAll(s.fs.PathJoin(directory, f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanPending looks at one key a model, not at every prediction.
func (s *Store) cleanPending(known map[Model]bool) error {
	for next := uint64(0); ; {
		var found *Model
		err := scan(s.pendingDB, key(familyPending, next), []byte{familyPending + 1}, func(k, _ []byte) (bool, error) {
			m, err := splitModel(k)
			found = &m
			return false, err
		})
		if err != nil || found == nil {
			return err
		}
		if !known[*found] {
			if err := s.dropPending(*found); err != nil {
				return err
			}
		}
		next = uint64(*found) + 1
	}
}
