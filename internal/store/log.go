package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// CorruptError names a damaged record of a log. It wraps storage.ErrCorrupt.
type CorruptError struct {
	Model    string
	Sequence uint64
	Detail   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("store: log of model %q at sequence %d: %s", e.Model, e.Sequence, e.Detail)
}

func (e *CorruptError) Unwrap() error { return storage.ErrCorrupt }

const recordHeader = 12 // first sequence, checksum

func checksum(first, last, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // MakeTable makes the table once in a process.
	sum := crc32.Update(crc32.Checksum(first, table), table, last)
	for part := range slices.Chunk(data, writePiece) { // The garbage collector waits for the sum of a part.
		sum = crc32.Update(sum, table, part)
	}
	return sum
}

func setRecord(b *pebble.Batch, model uint64, r storage.Record) error {
	put := b.SetDeferred(logKeyLength, recordHeader+len(r.Data))
	appendKey(put.Key[:0], familyLog, model, r.Last)
	binary.BigEndian.PutUint64(put.Value, r.First)
	binary.BigEndian.PutUint32(put.Value[8:], checksum(put.Value[:8], put.Key[9:], r.Data))
	copy(put.Value[recordHeader:], r.Data)
	return put.Finish()
}

func decodeRecord(name string, k, v []byte) (storage.Record, error) {
	if len(k) != logKeyLength {
		return storage.Record{}, &CorruptError{name, 0, fmt.Sprintf("key of %d bytes, want %d", len(k), logKeyLength)}
	}
	r := storage.Record{Last: binary.BigEndian.Uint64(k[9:])}
	if len(v) < recordHeader {
		return r, &CorruptError{name, r.Last, fmt.Sprintf("%d bytes, want at least %d", len(v), recordHeader)}
	}
	r.First, r.Data = binary.BigEndian.Uint64(v), v[recordHeader:]
	if stored, sum := binary.BigEndian.Uint32(v[8:]), checksum(v[:8], k[9:], r.Data); stored != sum {
		return r, &CorruptError{name, r.Last, fmt.Sprintf("checksum %08x, want %08x", sum, stored)}
	}
	if r.First > r.Last {
		return r, &CorruptError{name, r.Last, fmt.Sprintf("record of %d to %d", r.First, r.Last)}
	}
	return r, nil
}

// Append implements storage.Log. The record and the ids are one batch. Append removes answered predictions after it.
// Concurrent appends of all models share syncs. The end of ctx ends Append before the write.
func (m *Model) Append(ctx context.Context, c storage.Commit) error {
	a := storage.Append{Model: m, Commit: c}
	m.store.AppendAll(ctx, []*storage.Append{&a})
	return a.Err
}

// AppendAll implements storage.Appender. The commits are one batch, and the answered predictions go in another.
func (s *Store) AppendAll(ctx context.Context, appends []*storage.Append) {
	if err := s.logDB.room(ctx); err != nil {
		for _, a := range appends {
			a.Err = err
		}
	} else {
		s.appendAll(ctx, appends)
	}
	var answered []pendingRow
	for _, a := range appends {
		if m := a.Model.(*Model); a.Err != nil {
			a.Err = m.failed("append to the log", a.Err)
		} else {
			answered = appendRows(answered, m, a.Answered)
		}
	}
	// The records are written: the answered predictions go, whatever ctx does.
	if err := s.removePending(answered); err != nil { //nolint:contextcheck // See above.
		for _, a := range appends {
			if a.Err == nil && len(a.Answered) > 0 {
				a.Err = a.Model.(*Model).failed("remove answered predictions", err)
			}
		}
	}
}

func (s *Store) appendAll(ctx context.Context, appends []*storage.Append) {
	begun := make([]*storage.Append, 0, len(appends))
	for _, a := range appends {
		m := a.Model.(*Model)
		m.writing.Lock()
		defer m.writing.Unlock()
		if a.Err = m.beginAppend(ctx, &a.Commit); a.Err == nil {
			begun = append(begun, a)
		}
	}
	if len(begun) == 0 {
		return
	}
	s.filter.committing.RLock()
	defer s.filter.committing.RUnlock()
	err := s.complete(ctx, s.logDB.commitSynced, func(b *pebble.Batch) error { return s.fillAppends(b, begun) })
	for _, a := range begun {
		if a.Err = err; err == nil {
			s.remembered.Add(int64(len(a.IDs)))
		}
		a.Model.(*Model).endChange(a.Last, err == nil)
	}
}

// fillAppends puts commits into a batch, family by family and in the order of the models: Pebble finds the place of a key in
// its memory table from the place of the key before. The caller holds Store.filter.committing until the commit has ended.
func (s *Store) fillAppends(b *pebble.Batch, appends []*storage.Append) (err error) {
	number := func(a *storage.Append) uint64 { return a.Model.(*Model).number }
	slices.SortFunc(appends, func(a, b *storage.Append) int { return cmp.Compare(number(a), number(b)) })
	for _, a := range appends {
		err = cmp.Or(err, setRecord(b, number(a), a.Record))
	}
	for _, a := range appends {
		for _, id := range a.IDs {
			err = cmp.Or(err, setAged(b, familyIDAge, number(a), id.ID, nanoseconds(id.At)))
		}
	}
	for _, a := range appends {
		for _, id := range a.IDs {
			s.filter.add(number(a), id.ID)
			err = cmp.Or(err, setRow(b, familyID, number(a), id.ID, nanoseconds(id.At), id.Value))
		}
	}
	return err
}

// beginAppend checks a commit, and makes the end of the log unknown. The caller holds writing.
func (m *Model) beginAppend(ctx context.Context, c *storage.Commit) error {
	if err := checkIDs(c.IDs); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	last, err := m.last()
	if err != nil {
		return err
	}
	if c.First != last+1 || c.Last < c.First {
		return fmt.Errorf("record of %d to %d behind %d: %w", c.First, c.Last, last, storage.ErrRejected)
	}
	m.beginChange()
	return nil
}

// beginChange makes the end of the log unknown until endChange. The caller holds writing.
func (m *Model) beginChange() {
	m.end.Lock()
	defer m.end.Unlock()
	m.end.known, m.end.changing = false, true
}

// endChange sets the end of the log, or leaves it unknown. The caller holds writing.
func (m *Model) endChange(last uint64, known bool) {
	m.end.Lock()
	defer m.end.Unlock()
	m.end.last, m.end.known, m.end.changing = last, known, false
}

// Last implements storage.Log.
func (m *Model) Last() (uint64, error) {
	last, err := m.last()
	return last, m.failed("find the end of the log", err)
}

func (m *Model) last() (uint64, error) {
	m.end.Lock()
	defer m.end.Unlock()
	if err := m.gone(); err != nil {
		return 0, err
	}
	if m.end.known {
		return m.end.last, nil
	}
	last, err := m.readEnd()
	if err != nil {
		return 0, err
	}
	m.end.last, m.end.known = last, !m.end.changing
	return last, nil
}

func (m *Model) readEnd() (last uint64, err error) {
	k, _, err := m.store.logDB.last(modelRange(familyLog, m.number))
	switch {
	case err != nil || k == nil:
		return 0, err
	case len(k) != logKeyLength:
		return 0, &CorruptError{m.name, 0, fmt.Sprintf("key of %d bytes, want %d", len(k), logKeyLength)}
	}
	return binary.BigEndian.Uint64(k[9:]), nil
}

// First implements storage.Log.
func (m *Model) First() (first uint64, err error) {
	if err := m.gone(); err != nil {
		return 0, m.failed("find the beginning of the log", err)
	}
	lower, upper := modelRange(familyLog, m.number)
	err = m.store.logDB.scan(lower, upper, func(k, v []byte) (bool, error) {
		r, err := decodeRecord(m.name, k, v)
		first = r.First
		return false, err
	})
	return first, m.failed("find the beginning of the log", err)
}

// Replay implements storage.Log.
func (m *Model) Replay(ctx context.Context, after uint64, f func(storage.Record) error) error {
	if err := m.gone(); err != nil {
		return m.failed("replay the log", err)
	}
	_, upper := modelRange(familyLog, m.number)
	next := after + 1
	err := m.store.logDB.walk(ctx, key(familyLog, m.number, next), upper, func(k, v []byte) error {
		r, err := decodeRecord(m.name, k, v)
		if err != nil {
			return err
		}
		if r.First > next || (r.First < next && next != after+1) {
			return &CorruptError{m.name, next, fmt.Sprintf("missing: the next record holds %d to %d", r.First, r.Last)}
		}
		next = r.Last + 1
		return f(r)
	}, func(err error) error { return m.failed("replay the log", err) })
	if errors.Is(err, storage.ErrReached) {
		return nil
	}
	return err
}

// Truncate implements storage.Log.
func (m *Model) Truncate(through uint64) error {
	db := m.store.logDB
	if err := db.room(context.Background()); err != nil {
		return m.failed("truncate the log", err)
	}
	m.store.files.RLock()
	defer m.store.files.RUnlock()
	m.writing.Lock()
	defer m.writing.Unlock()
	last, err := m.last()
	if err != nil {
		return m.failed("truncate the log", err)
	}
	return m.failed("truncate the log", db.commit(pebble.NoSync, func(b *pebble.Batch) error {
		return b.DeleteRange(key(familyLog, m.number, 0), key(familyLog, m.number, min(through, last)), nil)
	}))
}
