package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

const (
	proposerLength = 16
	partKeyLength  = 1 + proposerLength + 8 + 8
)

// partKey returns the key of a part. Without offsets it is the beginning of the keys of a transfer.
func partKey(t storage.Transfer, offset ...uint64) []byte {
	k := append(append(make([]byte, 0, partKeyLength), familyPart), t.Proposer[:]...)
	for _, n := range append([]uint64{t.Number}, offset...) {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// transferRange returns the bounds of the keys of a transfer. The upper bound is longer than a key.
func transferRange(t storage.Transfer) (lower, upper []byte) {
	lower = partKey(t)
	return lower, append(slices.Clone(lower), bytes.Repeat([]byte{0xff}, 8+1)...)
}

// PutPart implements storage.Parts.
func (s *Store) PutPart(ctx context.Context, t storage.Transfer, offset uint64, data []byte) error {
	err := s.logDB.room(ctx)
	if err == nil {
		err = s.complete(ctx, s.logDB.commitDurably, func(b *pebble.Batch) error { return b.Set(partKey(t, offset), data, nil) })
	}
	return failed("keep a part of a change", err)
}

// JoinParts implements storage.Parts.
func (s *Store) JoinParts(t storage.Transfer, size uint64) ([]byte, error) {
	lower, upper := transferRange(t)
	has, err := s.partsEnd(lower, upper)
	var out []byte
	if err == nil && has == size { // Without the check, a wrong size could take any memory.
		out = make([]byte, 0, size)
		err = s.logDB.scan(lower, upper, func(k, v []byte) (bool, error) {
			more := binary.BigEndian.Uint64(k[partKeyLength-8:]) == uint64(len(out)) && uint64(len(v)) <= size-uint64(len(out))
			if more {
				out = append(out, v...)
			}
			return more, nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("store: join the parts of a change: %w", damaged(err))
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("store: %w: parts of a change of %d bytes", storage.ErrNotFound, size)
	}
	return out, nil
}

// partsEnd returns the offset behind the last part of a range, 0 without parts.
func (s *Store) partsEnd(lower, upper []byte) (end uint64, err error) {
	k, size, err := s.logDB.last(lower, upper)
	switch {
	case err != nil || k == nil:
		return 0, err
	case len(k) != partKeyLength:
		return 0, fmt.Errorf("%w: key of a part of %d bytes, want %d", storage.ErrCorrupt, len(k), partKeyLength)
	}
	return binary.BigEndian.Uint64(k[partKeyLength-8:]) + uint64(size), nil
}

// DropParts implements storage.Parts.
func (s *Store) DropParts(t storage.Transfer) error {
	lower, upper := transferRange(t)
	return s.dropParts(func(b *pebble.Batch) error { return b.DeleteRange(lower, upper, nil) })
}

// DropOtherParts implements storage.Parts.
func (s *Store) DropOtherParts(proposer [proposerLength]byte) error {
	first, _ := transferRange(storage.Transfer{Proposer: proposer})
	_, last := transferRange(storage.Transfer{Proposer: proposer, Number: 1<<64 - 1})
	return s.dropParts(func(b *pebble.Batch) error {
		return errors.Join(b.DeleteRange([]byte{familyPart}, first, nil), b.DeleteRange(last, []byte{familyPart + 1}, nil))
	})
}

func (s *Store) dropParts(fill func(*pebble.Batch) error) error {
	return failed("drop the parts of a change", s.logDB.commitUnsynced(fill))
}
