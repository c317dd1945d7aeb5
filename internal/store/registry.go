package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

func registryKey(name string) []byte { return append([]byte{familyRegistry}, name...) }

// Models implements storage.Registry. The function f receives an unreadable entry with its error.
func (s *Store) Models(ctx context.Context, f func(storage.RegistryEntry) error) error {
	rewinds, err := s.rewinds()
	if err != nil {
		return fmt.Errorf("store: read the registry: %w", err)
	}
	return s.logDB.walk(ctx, []byte{familyRegistry}, []byte{familyRegistry + 1}, func(k, v []byte) error {
		if e, ok := s.entry(string(k[1:]), v, rewinds); ok {
			return f(e)
		}
		return nil
	}, func(err error) error { return failed("read the registry", err) })
}

// entry decodes a registry entry. The result ok is false if the model was deleted meanwhile.
func (s *Store) entry(name string, encoded []byte, rewinds map[uint64]*uint64) (out storage.RegistryEntry, ok bool) {
	out.Name = name
	model, value, err := splitEntry(encoded)
	if err != nil {
		out.Err = fmt.Errorf("store: model %q: %w", name, err)
		return out, true
	}
	m := s.handle(model)
	if m == nil {
		return out, false
	}
	sequence, rewinding := rewinds[model]
	switch {
	case m.name != name:
		out.Err = fmt.Errorf("store: model %q: %w: its number %d belongs to model %q", name, storage.ErrCorrupt, model, m.name)
	case rewinding && sequence == nil:
		out.Err = fmt.Errorf("store: model %q: %w: the sequence of its unfinished rewind cannot be read", name, storage.ErrCorrupt)
	default:
		out.Value, out.Model, out.Rewinding = value, m, sequence
	}
	return out, true
}

func (s *Store) handle(model uint64) *Model {
	s.handles.RLock()
	defer s.handles.RUnlock()
	return s.handles.byNumber[model]
}

func (s *Store) addHandle(name string, model uint64) *Model {
	s.handles.Lock()
	defer s.handles.Unlock()
	m := &Model{store: s, name: name, number: model}
	s.handles.byNumber[model] = m
	return m
}

func (s *Store) dropHandle(m *Model) {
	m.closeTally()
	s.handles.Lock()
	defer s.handles.Unlock()
	delete(s.handles.byNumber, m.number)
}

// Create implements storage.Registry.
func (s *Store) Create(ctx context.Context, name string, value []byte) (storage.Model, error) {
	m, err := s.begin(ctx, name)
	if err == nil {
		defer s.end(name)
		if err = s.register(ctx, m, value, nil); err == nil {
			return m, nil
		}
		m.stage.Store(stageDeleted)
		s.dropHandle(m)
	}
	return nil, fmt.Errorf("store: create model %q: %w", name, err)
}

// Import implements storage.Registry. The last step registers the name. Before it the data are
// under a number without a name: an error removes them, and after a crash the next start does.
// The log begins with a record of the snapshot's sequence without data.
//
// Under a position every replica assigns the same number. So Import rejects an import before it takes a number, and a
// later failure ends all writing to the store.
func (s *Store) Import(ctx context.Context, name string, value []byte, from storage.Import) (_ storage.Model, err error) {
	defer func() { err = failed(fmt.Sprintf("import model %q", name), err) }()
	if err := checkImport(from); err != nil {
		return nil, err
	}
	m, err := s.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	defer s.end(name)
	_, placed := storage.PositionOf(ctx)
	if placed {
		ctx = context.WithoutCancel(ctx)
	}
	err = m.receive(ctx, from)
	if err == nil {
		var begin *storage.Record
		if from.Sequence > 0 {
			begin = &storage.Record{First: from.Sequence, Last: from.Sequence}
		}
		err = s.endImport(ctx, m, value, begin)
	}
	if err == nil {
		return m, nil
	}
	m.stage.Store(stageDeleted)
	if placed {
		err = s.guard.fail(err)
	}
	if s.Failed() == nil {
		// After a rejected write it is unknown whether the name is registered, and the disk
		// stays as it is.
		err = errors.Join(err, m.drop(context.WithoutCancel(ctx)))
	}
	s.dropHandle(m)
	return nil, err
}

func checkImport(from storage.Import) error {
	if err := checkIDs(from.IDs); err != nil {
		return err
	}
	for n := range from.Pending {
		if err := checkID(from.Pending[n].ID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) endImport(ctx context.Context, m *Model, value []byte, begin *storage.Record) error {
	s.files.RLock()
	defer s.files.RUnlock()
	return s.register(ctx, m, value, begin)
}

const importPortion = 1024

// receive writes, durably, what a model begins with. The number of the model is durable before
// data are outside the database log, so that no later model gets the number.
//
// The model has no other rows. Rows in ascending order of their ids are distinct, so receive
// does not look them up.
func (m *Model) receive(ctx context.Context, from storage.Import) error {
	s := m.store
	minted := ascending(from.IDs, func(id *storage.ID) string { return id.ID })
	for ids := from.IDs; len(ids) > 0; {
		n := min(len(ids), importPortion)
		if err := errors.Join(context.Cause(ctx), m.putIDs(ctx, ids[:n], minted, s.logDB.commitUnsynced)); err != nil {
			return err
		}
		ids = ids[n:]
	}
	if err := s.logDB.force(); err != nil {
		return err
	}
	minted = ascending(from.Pending, func(p *storage.Prediction) string { return p.ID })
	for rows := from.Pending; len(rows) > 0; {
		n := min(len(rows), importPortion)
		portion := slices.Clone(rows[:n])
		for k := range portion {
			portion[k].Minted = minted
		}
		p, err := m.newPut(portion)
		if err == nil {
			s.putAll(ctx, []*put{p})
			err = p.err
		}
		if err := errors.Join(context.Cause(ctx), err); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if len(from.Pending) > 0 {
		if err := s.usePending(ctx, (*database).force); err != nil {
			return err
		}
	}
	if err := m.writeSnapshot(from.Sequence, from.Snapshot); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func ascending[T any](rows []T, id func(*T) string) bool {
	for n := 1; n < len(rows); n++ {
		if id(&rows[n-1]) >= id(&rows[n]) {
			return false
		}
	}
	return true
}

// begin takes a name and a number for a new model. The caller gives the name back with end. A call
// waits while another call creates a model under the same name.
func (s *Store) begin(ctx context.Context, name string) (*Model, error) {
	_, placed := storage.PositionOf(ctx)
	if placed {
		if err := s.beginPositions(); err != nil {
			return nil, err
		}
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := s.logDB.room(ctx); err != nil {
			return nil, err
		}
		m, others, err := s.take(name, placed)
		if others == nil {
			return m, err
		}
		select {
		case <-others:
		case <-ctx.Done():
		}
	}
}

// take is begin without the wait: others closes when the other call gives the name back.
func (s *Store) take(name string, placed bool) (m *Model, others <-chan struct{}, err error) {
	s.registry.Lock()
	defer s.registry.Unlock()
	if others, ok := s.registry.making[name]; ok {
		return nil, others, nil
	}
	if _, ok, err := s.logDB.get(registryKey(name)); err != nil {
		return nil, nil, err
	} else if ok {
		return nil, nil, storage.ErrExists
	}
	s.registry.newest++
	if !placed {
		// The lock keeps the numbers in order on disk. The next synced commit makes this
		// number durable.
		err = s.logDB.commitUnsynced(func(b *pebble.Batch) error { return setNumber(b, s.registry.newest) })
		if err != nil {
			return nil, nil, err
		}
	}
	s.registry.making[name] = make(chan struct{})
	return s.addHandle(name, s.registry.newest), nil, nil
}

func (s *Store) end(name string) {
	s.registry.Lock()
	defer s.registry.Unlock()
	close(s.registry.making[name])
	delete(s.registry.making, name)
}

func setNumber(b *pebble.Batch, newest uint64) error {
	return b.Set([]byte{familyNumber}, binary.BigEndian.AppendUint64(nil, newest), nil)
}

// register durably commits a name and the first record of its log. Under a position it commits the number in the same
// batch.
func (s *Store) register(ctx context.Context, m *Model, value []byte, begin *storage.Record) error {
	_, placed := storage.PositionOf(ctx)
	err := s.complete(ctx, s.logDB.commitDurably, func(b *pebble.Batch) error {
		if placed {
			if err := setNumber(b, m.number); err != nil {
				return err
			}
		}
		if begin != nil {
			if err := setRecord(b, m.number, *begin); err != nil {
				return err
			}
		}
		return b.Set(registryKey(m.name), m.entry(value), nil)
	})
	if err != nil {
		return err
	}
	m.stage.Store(stageRegistered)
	return nil
}

func (m *Model) entry(value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), m.number), value...)
}

// Value implements storage.Model.
func (m *Model) Value() ([]byte, error) {
	encoded, ok, err := m.store.logDB.get(registryKey(m.name))
	if err != nil {
		return nil, m.failed("read the value", err)
	}
	if ok {
		var model uint64
		var value []byte
		if model, value, err = splitEntry(encoded); err == nil && model == m.number {
			return value, nil
		}
	}
	return nil, m.failed("read the value", cmp.Or(err, storage.ErrDeleted))
}

// SetValue implements storage.Model.
func (m *Model) SetValue(ctx context.Context, value []byte, also ...storage.Alias) (err error) {
	defer func() { err = m.failed("set the value", err) }()
	db := m.store.logDB
	if err := db.room(ctx); err != nil {
		return err
	}
	// Delete holds writing too.
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := errors.Join(context.Cause(ctx), m.gone()); err != nil {
		return err
	}
	return m.store.complete(ctx, db.commitDurably, func(b *pebble.Batch) error {
		for _, a := range also {
			if err := b.Set(aliasKey(a.Name), a.Value, nil); err != nil {
				return fmt.Errorf("alias %q: %w", a.Name, err)
			}
		}
		return b.Set(registryKey(m.name), m.entry(value), nil)
	})
}
