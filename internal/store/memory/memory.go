// Package memory implements package storage in memory. The data live as long as the Store: a server
// that starts again over the same Store finds them. The store copies what it takes and returns.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hindsight/internal/engine/storage"
)

// Store holds models. It implements storage.Store.
type Store struct {
	now func() time.Time

	// mu is held during every call, except while a function of the caller runs.
	mu struct {
		sync.Mutex
		models map[string]*Model
		// aliases are the values by their names.
		aliases map[string][]byte
		// pending counts the predictions of all models.
		pending int
		// newest is the highest model number.
		newest   uint64
		position storage.Position
	}
}

// New returns an empty store. The clock now dates snapshots.
func New(now func() time.Time) *Store {
	s := &Store{now: now}
	s.mu.models, s.mu.aliases = map[string]*Model{}, map[string][]byte{}
	return s
}

// Model is a model of a Store. It implements storage.Model. The lock of the store guards the fields.
type Model struct {
	store  *Store
	name   string
	number uint64
	value  []byte

	deleted   bool
	log       []storage.Record
	ids       map[string]storage.ID
	pending   map[string]storage.Prediction
	snapshots map[uint64]snapshot
}

type snapshot struct {
	data    []byte
	created time.Time
}

// Models implements storage.Registry.
func (s *Store) Models(ctx context.Context, f func(storage.Entry) error) error {
	for _, m := range s.models() {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("memory: read the registry: %w", err)
		}
		s.mu.Lock()
		value, deleted := bytes.Clone(m.value), m.deleted
		s.mu.Unlock()
		if deleted {
			continue
		}
		if err := f(storage.Entry{Name: m.name, Value: value, Model: m}); err != nil {
			return err
		}
	}
	return nil
}

// models returns the models in the order of their names.
func (s *Store) models() []*Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Model, 0, len(s.mu.models))
	for _, m := range s.mu.models {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *Model) int { return strings.Compare(a.name, b.name) })
	return out
}

// Create implements storage.Registry.
func (s *Store) Create(ctx context.Context, name string, value []byte) (storage.Model, error) {
	return s.add(ctx, name, value, nil)
}

// Import implements storage.Registry.
func (s *Store) Import(ctx context.Context, name string, value []byte, from storage.Import) (storage.Model, error) {
	return s.add(ctx, name, value, &from)
}

func (s *Store) add(ctx context.Context, name string, value []byte, from *storage.Import) (storage.Model, error) {
	m := &Model{
		store: s, name: name, value: bytes.Clone(value),
		ids: map[string]storage.ID{}, pending: map[string]storage.Prediction{}, snapshots: map[uint64]snapshot{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, m.failed("create", err)
	}
	if s.mu.models[name] != nil {
		return nil, m.failed("create", storage.ErrExists)
	}
	if from != nil {
		if err := m.receive(*from); err != nil {
			return nil, m.failed("import", err)
		}
	}
	s.mu.newest++
	m.number = s.mu.newest
	s.mu.models[name] = m
	s.reach(ctx)
	return m, nil
}

// reach stores the position of a call that has one. The caller holds the lock.
func (s *Store) reach(ctx context.Context) {
	if p, ok := storage.PositionOf(ctx); ok {
		s.mu.position = p
	}
}

// Position implements storage.Upkeep.
func (s *Store) Position() storage.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.position
}

// Number implements storage.Model.
func (m *Model) Number() uint64 { return m.number }

func (m *Model) receive(from storage.Import) error {
	if err := m.putIDs(from.IDs); err != nil {
		return err
	}
	if err := m.putPending(from.Waiting); err != nil {
		return err
	}
	m.snapshots[from.Sequence] = snapshot{bytes.Clone(from.Snapshot), m.store.now()}
	if from.Sequence > 0 {
		m.log = []storage.Record{{First: from.Sequence, Last: from.Sequence}}
	}
	return nil
}

// Expire implements storage.Upkeep.
func (s *Store) Expire(ctx context.Context, now time.Time, f func(storage.Model)) error {
	for _, m := range s.models() {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("memory: expire pending predictions: %w", err)
		}
		for range m.expire(now) {
			f(m)
		}
	}
	return nil
}

func (m *Model) expire(now time.Time) (expired int) {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	for id, p := range m.pending {
		if !m.deleted && !p.Expiry.After(now) {
			delete(m.pending, id)
			m.store.mu.pending--
			expired++
		}
	}
	return expired
}

// Time implements storage.Upkeep.
func (*Store) Time() time.Time { return time.Time{} }

// Due implements storage.Upkeep.
func (s *Store) Due(now, before time.Time, keep int) (due bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remembered := 0
	for _, m := range s.mu.models {
		remembered += len(m.ids)
		for _, p := range m.pending {
			due = due || !p.Expiry.After(now)
		}
	}
	for _, m := range s.mu.models {
		for _, id := range m.ids {
			due = due || remembered > keep && id.At.Before(before)
		}
	}
	return due, nil
}

// Forget implements storage.Upkeep. It sorts all ids by their age.
func (s *Store) Forget(ctx context.Context, before time.Time, keep int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("memory: forget old ids: %w", err)
	}
	type entry struct {
		m  *Model
		id storage.ID
	}
	var all []entry
	for _, m := range s.mu.models {
		for _, id := range m.ids {
			all = append(all, entry{m, id})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return a.id.At.Compare(b.id.At) })
	for _, e := range all[:max(0, len(all)-keep)] {
		if e.id.At.Before(before) {
			delete(e.m.ids, e.id.ID)
		}
	}
	return nil
}

// Sync implements storage.Upkeep.
func (s *Store) Sync(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("memory: sync: %w", err)
	}
	return nil
}

// CountWaiting implements storage.Upkeep.
func (s *Store) CountWaiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.mu.pending)
}

// Clone returns a copy of the store, as a crash would leave it.
func (s *Store) Clone() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := New(s.now)
	out.mu.pending, out.mu.aliases = s.mu.pending, maps.Clone(s.mu.aliases)
	out.mu.newest, out.mu.position = s.mu.newest, s.mu.position
	for name, m := range s.mu.models {
		out.mu.models[name] = &Model{
			store: out, name: m.name, number: m.number, value: m.value, log: slices.Clone(m.log),
			ids: maps.Clone(m.ids), pending: maps.Clone(m.pending), snapshots: maps.Clone(m.snapshots),
		}
	}
	return out
}

// Failed implements storage.Upkeep: memory takes writes for ever.
func (s *Store) Failed() error { return nil }

// failed adds the call and the model to an error.
func (m *Model) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memory: %s of model %q: %w", what, m.name, err)
}

// locked calls f under the lock of the store, unless the model is deleted.
func (m *Model) locked(what string, f func() error) error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	if m.deleted {
		return m.failed(what, storage.ErrDeleted)
	}
	return m.failed(what, f())
}

// change is locked for a call that a command may make. If the call succeeds, change stores its position.
func (m *Model) change(ctx context.Context, what string, f func() error) error {
	return m.locked(what, func() error {
		err := context.Cause(ctx)
		if err == nil {
			err = f()
		}
		if err == nil {
			m.store.reach(ctx)
		}
		return err
	})
}

// Delete implements storage.Model.
func (m *Model) Delete(ctx context.Context) error {
	return m.change(ctx, "delete the data", func() error {
		delete(m.store.mu.models, m.name)
		m.deleted = true
		m.store.mu.pending -= len(m.pending)
		m.log, m.ids, m.pending, m.snapshots = nil, nil, nil, nil
		return nil
	})
}

// Value implements storage.Model.
func (m *Model) Value() (value []byte, err error) {
	err = m.locked("read the value", func() error {
		value = bytes.Clone(m.value)
		return nil
	})
	return value, err
}

// SetValue implements storage.Model.
func (m *Model) SetValue(ctx context.Context, value []byte, also ...storage.Alias) error {
	return m.change(ctx, "set the value", func() error {
		m.value = bytes.Clone(value)
		for _, a := range also {
			m.store.mu.aliases[a.Name] = bytes.Clone(a.Value)
		}
		return nil
	})
}

// Last implements storage.Log.
func (m *Model) Last() (last uint64, err error) {
	err = m.locked("find the end of the log", func() error {
		last = m.end()
		return nil
	})
	return last, err
}

// end returns the last sequence of the log.
func (m *Model) end() uint64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].Last
}

// First implements storage.Log.
func (m *Model) First() (first uint64, err error) {
	err = m.locked("find the beginning of the log", func() error {
		if len(m.log) > 0 {
			first = m.log[0].First
		}
		return nil
	})
	return first, err
}

// Append implements storage.Log.
func (m *Model) Append(ctx context.Context, c storage.Commit) error {
	return m.change(ctx, "append to the log", func() error {
		if last := m.end(); c.First != last+1 || c.Last < c.First {
			return fmt.Errorf("record of %d to %d behind %d: %w", c.First, c.Last, last, storage.ErrRefused)
		}
		if err := m.putIDs(c.IDs); err != nil {
			return err
		}
		m.log = append(m.log, clone(c.Record))
		for _, a := range c.Answered {
			for _, of := range m.store.mu.models {
				if of.number == a.Model {
					of.removePending(a.ID)
				}
			}
		}
		return nil
	})
}

func clone(r storage.Record) storage.Record {
	r.Data = bytes.Clone(r.Data)
	return r
}

// from returns the index of the first record with Last >= sequence.
func (m *Model) from(sequence uint64) int {
	n, _ := slices.BinarySearchFunc(m.log, sequence, func(r storage.Record, s uint64) int { return cmp.Compare(r.Last, s) })
	return n
}

// Replay implements storage.Log. It replays the records that exist when the call begins.
func (m *Model) Replay(ctx context.Context, after uint64, f func(storage.Record) error) error {
	var records []storage.Record
	err := m.locked("replay the log", func() error {
		records = slices.Clone(m.log[m.from(after+1):])
		return nil
	})
	if err != nil {
		return err
	}
	next := after + 1
	for _, r := range records {
		if err := context.Cause(ctx); err != nil {
			return m.failed("replay the log", err)
		}
		if r.First > next {
			return m.failed("replay the log", fmt.Errorf("sequence %d: missing: the next record holds %d to %d: %w",
				next, r.First, r.Last, storage.ErrCorrupt))
		}
		next = r.Last + 1
		if err := f(clone(r)); err != nil {
			return err
		}
	}
	return nil
}

// Truncate implements storage.Log.
func (m *Model) Truncate(through uint64) error {
	return m.locked("truncate the log", func() error {
		m.log = slices.Clone(m.log[m.from(min(through, m.end())):])
		return nil
	})
}

// Rewind implements storage.Log. It is one step.
func (m *Model) Rewind(ctx context.Context, r storage.Rewind) error {
	return m.change(ctx, "rewind the log", func() error {
		if r.Last != nil && (r.Last.Last != r.Sequence || r.Last.First > r.Last.Last) {
			return fmt.Errorf("the record of %d to %d does not end with sequence %d", r.Last.First, r.Last.Last, r.Sequence)
		}
		if err := m.putIDs(r.IDs); err != nil {
			return err
		}
		for sequence := range m.snapshots {
			if sequence > r.Sequence {
				delete(m.snapshots, sequence)
			}
		}
		for id, e := range m.ids {
			if r.Undone != nil && r.Undone(bytes.Clone(e.Value)) {
				delete(m.ids, id)
			}
		}
		if r.Value != nil {
			m.value = bytes.Clone(r.Value)
		}
		if r.Snapshot != nil {
			m.snapshots[r.Sequence] = snapshot{bytes.Clone(r.Snapshot), m.store.now()}
		}
		if r.Last == nil {
			m.log = slices.Clone(m.log[:m.from(r.Sequence+1)])
			return nil
		}
		m.log = append(slices.Clone(m.log[:m.from(r.Sequence)]), clone(*r.Last))
		return nil
	})
}
