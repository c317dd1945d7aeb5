package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

// load reads the registry, counts ids and predictions, and removes what crashes left:
// unfinished snapshots, and data under numbers without a name. If a registry entry is
// unreadable, its number is unknown, and load removes no data by number.
func (s *Store) load() error {
	readable, err := s.loadRegistry()
	if err != nil {
		return err
	}
	used, err := s.count()
	if err != nil {
		return err
	}
	if err := s.loadPosition(); err != nil {
		return err
	}
	if err := s.loadNewest(used); err != nil {
		return err
	}
	return s.clean(used, readable)
}

// loadRegistry creates the handles of all models. The result readable says that
// every entry could be read.
func (s *Store) loadRegistry() (readable bool, err error) {
	readable = true
	err = s.logDB.scan([]byte{familyRegistry}, []byte{familyRegistry + 1}, func(k, v []byte) (bool, error) {
		name := string(k[1:])
		model, _, err := splitEntry(v)
		if err != nil {
			readable = false
			s.log.Error("an entry of the registry cannot be read: data of models that are not registered stays",
				zap.String("model", name), zap.Error(err))
			return true, nil
		}
		if s.handle(model) == nil {
			s.addHandle(name, model).stage.Store(stageRegistered)
		}
		return true, nil
	})
	return readable, failed("read the registry", err)
}

// loadNewest finds the newest model number. In a directory without positions it skips all numbers with data, so that
// no model gets a number in use. In a directory with positions, data under a number after the stored number are the
// remains of a command. The log applies the command again, and the model must get the same number on every replica.
func (s *Store) loadNewest(used map[uint64]bool) error {
	stored, ok, err := s.logDB.get([]byte{familyNumber})
	switch {
	case err != nil:
		return fmt.Errorf("store: read the newest model number: %w", err)
	case ok && len(stored) != 8:
		return fmt.Errorf("store: %w: newest model number of %d bytes, want 8", storage.ErrCorrupt, len(stored))
	case ok:
		s.registry.newest = binary.BigEndian.Uint64(stored)
	}
	if !s.hasPosition() {
		for model := range used {
			s.registry.newest = max(s.registry.newest, model)
		}
	}
	for model := range s.handles.byNumber {
		s.registry.newest = max(s.registry.newest, model)
	}
	return nil
}

// count counts the remembered ids and the pending predictions, and returns all numbers in use,
// registered or not.
func (s *Store) count() (used map[uint64]bool, err error) {
	used = map[uint64]bool{}
	var hashes []uint64
	err = s.eachRemembered(func(model uint64, id string) {
		used[model] = true
		hashes = append(hashes, s.filter.hash(model, id))
	})
	if err != nil {
		return nil, fmt.Errorf("store: count the remembered ids: %w", err)
	}
	s.remembered.Store(int64(len(hashes)))
	s.filter.begin(hashes)
	if err := s.countPending(used); err != nil {
		return nil, fmt.Errorf("store: count the pending predictions: %w", err)
	}
	directories, err := s.list(s.path(snapshots))
	if err != nil {
		return nil, fmt.Errorf("store: count the snapshots: %w", err)
	}
	for _, d := range directories {
		if model, err := strconv.ParseUint(d, 10, 64); err == nil && d == number(model) {
			used[model] = true
		}
	}
	return used, nil
}

// clean removes unfinished snapshots and, if the whole registry is readable, data under numbers
// that are not registered. If models can get these numbers again, it removes the data durably.
func (s *Store) clean(used map[uint64]bool, readable bool) error {
	again := false
	for model := range used {
		if m := s.handle(model); m != nil {
			if err := s.cleanUnfinished(s.path(snapshots, number(model))); err != nil {
				return err
			}
			continue
		}
		if !readable && model <= s.registry.newest {
			continue
		}
		again = again || model > s.registry.newest
		left := &Model{store: s, name: "number " + number(model), number: model}
		if err := left.drop(context.Background()); err != nil {
			return left.failed("remove the remains", err)
		}
	}
	if again {
		if err := s.finishPending((*database).force); err != nil {
			return fmt.Errorf("store: remove the remains of a model: %w", err)
		}
	}
	return s.syncDirectory(s.path(snapshots))
}

func (s *Store) cleanUnfinished(directory string) error {
	files, err := s.list(directory)
	if err != nil {
		return err
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
