package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Families of keys. Integers are big-endian, so that keys sort by them.
const (
	familyVersion  = 'v' // -> format version
	familyNumber   = 'n' // -> the newest model number
	familyRegistry = 'r' // name -> number, value
	familyLog      = 'l' // model, last sequence -> first sequence, checksum, data
	familySeen     = 's' // model, id -> time, value
	familySeenAge  = 'a' // time, model, id
	familyPending  = 'p' // model, id -> expiry, value
	familyExpiry   = 'e' // expiry, model, id
)

func key(family byte, numbers ...uint64) []byte {
	k := make([]byte, 1, 1+8*len(numbers)+40)
	k[0] = family
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// modelRange is all keys of a model in a family that begins with the model.
func modelRange(family byte, m Model) (lower, upper []byte) {
	return key(family, uint64(m)), key(family, uint64(m)+1)
}

func idKey(family byte, m Model, id string) []byte { return append(key(family, uint64(m)), id...) }

// nanoseconds since 1970 of a time, at least 0, so that keys sort by it, and
// at most a little before what the number can hold.
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

// agedKey begins with a time, in nanoseconds since 1970.
func agedKey(family byte, at int64, m Model, id string) []byte {
	return append(key(family, uint64(at), uint64(m)), id...)
}

// splitAged takes an agedKey apart.
func splitAged(k []byte) (at int64, m Model, id string, err error) {
	if len(k) < 17 {
		return 0, 0, "", fmt.Errorf("store: index key of %d bytes, want at least 17", len(k))
	}
	return int64(binary.BigEndian.Uint64(k[1:])), Model(binary.BigEndian.Uint64(k[9:])), string(k[17:]), nil
}

// timed is a value behind its time.
func timed(at int64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), uint64(at)), value...)
}

func splitTimed(v []byte) (at int64, value []byte, err error) {
	if len(v) < 8 {
		return 0, nil, fmt.Errorf("store: value of %d bytes, want at least 8", len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), v[8:], nil
}

// splitModel takes the model out of a key that begins with it.
func splitModel(k []byte) (Model, error) {
	if len(k) < 9 {
		return 0, fmt.Errorf("store: key of %d bytes, want at least 9", len(k))
	}
	return Model(binary.BigEndian.Uint64(k[1:])), nil
}

func checkID(id string) error {
	if len(id) > maxIDBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidID, len(id), maxIDBytes)
	}
	return nil
}
