package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// Families of keys. Integers are big-endian, so that keys sort by them.
const (
	familyNumber   = 'n' // -> the newest model number
	familyRegistry = 'r' // name -> number, value
	familyRewind   = 'w' // model -> sequence
	familyAlias    = 'x' // name -> value
	familyPosition = 'c' // -> index, command
	familyPart     = 'q' // proposer, transfer, offset -> data
	familyLog      = 'l' // model, last sequence -> first sequence, checksum, data
	familyID       = 's' // model, id -> time, value
	familyIDAge    = 'a' // time, model, id
	familyPending  = 'p' // model, id -> expiry, value
	familyExpiry   = 'e' // expiry, model, id
)

const (
	modelKeyLength = 1 + 8
	logKeyLength   = 1 + 8 + 8
	agedKeyLength  = 1 + 8 + 8
)

func appendKey(to []byte, family byte, numbers ...uint64) []byte {
	to = append(to, family)
	for _, n := range numbers {
		to = binary.BigEndian.AppendUint64(to, n)
	}
	return to
}

func key(family byte, numbers ...uint64) []byte {
	return appendKey(make([]byte, 0, 1+8*len(numbers)), family, numbers...)
}

func modelRange(family byte, model uint64) (lower, upper []byte) {
	return key(family, model), key(family, model+1)
}

func idKey(family byte, model uint64, id string) []byte {
	return append(appendKey(make([]byte, 0, modelKeyLength+len(id)), family, model), id...)
}

// agedKey returns a key that begins with a time, in nanoseconds since 1970.
func agedKey(family byte, at int64, model uint64, id string) []byte {
	return append(appendKey(make([]byte, 0, agedKeyLength+len(id)), family, uint64(at), model), id...)
}

// setTimed puts a row under an id and its entry in the index by time, in the memory of the batch.
func setTimed(b *pebble.Batch, row, index byte, model uint64, id string, at int64, value []byte) error {
	return cmp.Or(setAged(b, index, model, id, at), setRow(b, row, model, id, at, value))
}

func setAged(b *pebble.Batch, index byte, model uint64, id string, at int64) error {
	entry := b.SetDeferred(agedKeyLength+len(id), 0)
	_ = append(appendKey(entry.Key[:0], index, uint64(at), model), id...)
	return entry.Finish()
}

func setRow(b *pebble.Batch, row byte, model uint64, id string, at int64, value []byte) error {
	put := b.SetDeferred(modelKeyLength+len(id), 8+len(value))
	_ = append(appendKey(put.Key[:0], row, model), id...)
	binary.BigEndian.PutUint64(put.Value, uint64(at))
	copy(put.Value[8:], value)
	return put.Finish()
}

func deleteTimed(b *pebble.Batch, row, index byte, model uint64, id string, at int64) error {
	entry := b.DeleteDeferred(agedKeyLength + len(id))
	_ = append(appendKey(entry.Key[:0], index, uint64(at), model), id...)
	if err := entry.Finish(); err != nil {
		return err
	}
	deleted := b.DeleteDeferred(modelKeyLength + len(id))
	_ = append(appendKey(deleted.Key[:0], row, model), id...)
	return deleted.Finish()
}

// nanoseconds returns the nanoseconds since 1970, clamped to [0, MaxInt64-1], so that keys sort by
// time.
func nanoseconds(t time.Time) int64 {
	const latest = math.MaxInt64 - 1
	switch {
	case t.Unix() < 0:
		return 0
	case t.Unix() >= latest/int64(time.Second):
		return latest
	}
	return t.UnixNano()
}

func splitAged(k []byte) (at int64, model uint64, id string, err error) {
	if len(k) < agedKeyLength {
		return 0, 0, "", fmt.Errorf("%w: index key of %d bytes, want at least %d", storage.ErrCorrupt, len(k), agedKeyLength)
	}
	return int64(binary.BigEndian.Uint64(k[1:])), binary.BigEndian.Uint64(k[9:]), string(k[17:]), nil
}

func splitTimed(v []byte) (at int64, value []byte, err error) {
	if len(v) < 8 {
		return 0, nil, fmt.Errorf("%w: value of %d bytes, want at least 8", storage.ErrCorrupt, len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), v[8:], nil
}

func splitModel(k []byte) (uint64, error) {
	if len(k) < modelKeyLength {
		return 0, fmt.Errorf("%w: key of %d bytes, want at least %d", storage.ErrCorrupt, len(k), modelKeyLength)
	}
	return binary.BigEndian.Uint64(k[1:]), nil
}

func splitEntry(v []byte) (model uint64, value []byte, err error) {
	if len(v) < 8 {
		return 0, nil, fmt.Errorf("%w: registry entry of %d bytes, want at least 8", storage.ErrCorrupt, len(v))
	}
	return binary.BigEndian.Uint64(v), v[8:], nil
}

func splitRewind(v []byte) (sequence uint64, err error) {
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: intention to rewind of %d bytes, want 8", storage.ErrCorrupt, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func checkIDs(ids []storage.ID) error {
	for n := range ids {
		if err := checkID(ids[n].ID); err != nil {
			return err
		}
	}
	return nil
}

func checkID(id string) error {
	if len(id) > storage.MaxID {
		return fmt.Errorf("%w: %d bytes, at most %d", storage.ErrInvalidID, len(id), storage.MaxID)
	}
	return nil
}
