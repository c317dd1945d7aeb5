package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
)

// Record is one entry of a model's log: the observations of the sequences
// First to Last, which became durable together.
type Record struct {
	First, Last uint64
	Data        []byte
}

const recordHeader = 12 // first sequence, checksum

// Append adds a record behind the last one. It is durable on return; all
// models share the syncs. It fails with ErrSequence, and appends nothing,
// unless the record begins right behind the log's end.
func (s *Store) Append(m Model, r Record) error {
	last, err := s.LastSequence(m)
	if err != nil {
		return err
	}
	if r.First != last+1 || r.Last < r.First {
		return fmt.Errorf("%w: record of %d to %d behind %d", ErrSequence, r.First, r.Last, last)
	}
	err = s.write(s.logDB, pebble.Sync, func(b *pebble.Batch) error {
		return b.Set(key(familyLog, uint64(m), r.Last), r.encode(), nil)
	})
	if err != nil {
		return err
	}
	s.last.Store(m, r.Last)
	return nil
}

// encode is the record as it stands under its last sequence.
func (r Record) encode() []byte {
	value := make([]byte, recordHeader, recordHeader+len(r.Data))
	binary.BigEndian.PutUint64(value, r.First)
	binary.BigEndian.PutUint32(value[8:], r.checksum())
	return append(value, r.Data...)
}

// checksum covers the sequences and the data.
func (r Record) checksum() uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var sequences [16]byte
	binary.BigEndian.PutUint64(sequences[:], r.First)
	binary.BigEndian.PutUint64(sequences[8:], r.Last)
	return crc32.Update(crc32.Checksum(sequences[:], table), table, r.Data)
}

func decodeLogged(m Model, k, v []byte) (Record, error) {
	if len(k) != 17 {
		return Record{}, &CorruptError{m, 0, fmt.Sprintf("key of %d bytes, want 17", len(k))}
	}
	r := Record{Last: binary.BigEndian.Uint64(k[9:])}
	if len(v) < recordHeader {
		return r, &CorruptError{m, r.Last, fmt.Sprintf("%d bytes, want at least %d", len(v), recordHeader)}
	}
	r.First, r.Data = binary.BigEndian.Uint64(v), v[recordHeader:]
	if sum := binary.BigEndian.Uint32(v[8:]); sum != r.checksum() {
		return r, &CorruptError{m, r.Last, fmt.Sprintf("checksum %08x, want %08x", r.checksum(), sum)}
	}
	if r.First > r.Last {
		return r, &CorruptError{m, r.Last, fmt.Sprintf("record of %d to %d", r.First, r.Last)}
	}
	return r, nil
}

// LastSequence is the end of a model's log, 0 when it is empty.
func (s *Store) LastSequence(m Model) (last uint64, err error) {
	if v, ok := s.last.Load(m); ok {
		return v.(uint64), nil //nolint:forcetypeassert // The map holds nothing else.
	}
	lower, upper := modelRange(familyLog, m)
	it, err := s.logDB.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, fmt.Errorf("store: find the log's end: %w", err)
	}
	if it.Last() {
		if k := it.Key(); len(k) == 17 {
			last = binary.BigEndian.Uint64(k[9:])
		} else {
			err = &CorruptError{m, 0, fmt.Sprintf("key of %d bytes, want 17", len(k))}
		}
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return 0, fmt.Errorf("store: find the log's end: %w", err)
	}
	s.last.Store(m, last)
	return last, nil
}

// Replay calls f for every record that holds a sequence after the given one,
// in order. The record's data is valid during the call only. It fails with a
// *CorruptError on a bad record or a gap, and when the log does not reach
// back to the sequence.
func (s *Store) Replay(m Model, after uint64, f func(Record) error) error {
	_, upper := modelRange(familyLog, m)
	next := after + 1
	return scan(s.logDB, key(familyLog, uint64(m), next), upper, func(k, v []byte) (bool, error) {
		r, err := decodeLogged(m, k, v)
		if err != nil {
			return false, err
		}
		if r.First > next || (r.First < next && next != after+1) {
			return false, &CorruptError{m, next, fmt.Sprintf("missing: the next record holds %d to %d", r.First, r.Last)}
		}
		next = r.Last + 1
		return true, f(r)
	})
}

// FirstSequence is the first sequence that the log holds, 0 of an empty log.
func (s *Store) FirstSequence(m Model) (first uint64, err error) {
	lower, upper := modelRange(familyLog, m)
	err = scan(s.logDB, lower, upper, func(k, v []byte) (bool, error) {
		r, err := decodeLogged(m, k, v)
		first = r.First
		return false, err
	})
	return first, err
}

// RewindLog drops the records that end after a sequence and puts the last of
// them, cut to end there, in their place; nil when a record ends there anyway.
// It is durable on return.
func (s *Store) RewindLog(m Model, sequence uint64, last *Record) error {
	_, upper := modelRange(familyLog, m)
	err := s.write(s.logDB, pebble.Sync, func(b *pebble.Batch) error {
		if err := b.DeleteRange(key(familyLog, uint64(m), sequence+1), upper, nil); err != nil {
			return err //nolint:wrapcheck // write does.
		}
		if last == nil {
			return nil
		}
		return b.Set(key(familyLog, uint64(m), last.Last), last.encode(), nil)
	})
	s.last.Delete(m)
	return err
}

// TruncateLog drops the records that end before a sequence. The one that
// holds it stays, and so does the last one, so that the log's end can be
// compared with a snapshot's. It does not wait for the disk.
func (s *Store) TruncateLog(m Model, through uint64) error {
	last, err := s.LastSequence(m)
	if err != nil {
		return err
	}
	through = min(through, last)
	return s.write(s.logDB, pebble.NoSync, func(b *pebble.Batch) error {
		return b.DeleteRange(key(familyLog, uint64(m), 0), key(familyLog, uint64(m), through), nil)
	})
}
