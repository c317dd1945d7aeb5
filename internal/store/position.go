package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// position is the last written position. A call under a position (storage.At) commits its effect and the position in
// one batch, without a sync. A power cut leaves a prefix of the commits. So the store has the effects of exactly the
// commands up to the position.
//
// Files are durable at once. So before a file that implies commits is written or removed, syncCommits makes the commits
// durable.
type position struct {
	sync.Mutex
	last storage.Position
	// begun: the directory has a position. The position is zero before the first command.
	begun bool
}

const positionLength = 8 + 4

// Position implements storage.Upkeep.
func (s *Store) Position() storage.Position {
	s.position.Lock()
	defer s.position.Unlock()
	return s.position.last
}

func (s *Store) hasPosition() bool {
	s.position.Lock()
	defer s.position.Unlock()
	return s.position.begun
}

// complete commits the last batch of a call. Under a position it adds the position to the batch and does not sync.
// Otherwise it uses commit. Calls under positions do not run concurrently.
func (s *Store) complete(ctx context.Context, commit func(fill func(*pebble.Batch) error) error, fill func(*pebble.Batch) error) error {
	p, ok := storage.PositionOf(ctx)
	if !ok {
		return commit(fill)
	}
	if err := s.beginPositions(); err != nil {
		return err
	}
	err := s.logDB.commitUnsynced(func(b *pebble.Batch) error {
		if err := fill(b); err != nil {
			return err
		}
		return setPosition(b, p)
	})
	if err != nil {
		return err
	}
	s.position.Lock()
	defer s.position.Unlock()
	s.position.last = p
	return nil
}

// beginPositions durably marks a directory before its first command. The mark makes every later start assign numbers
// in the order of the commands.
func (s *Store) beginPositions() error {
	s.position.Lock()
	defer s.position.Unlock()
	if s.position.begun {
		return nil
	}
	if err := s.logDB.commitDurably(func(b *pebble.Batch) error { return setPosition(b, storage.Position{}) }); err != nil {
		return fmt.Errorf("begin positions: %w", err)
	}
	s.position.begun = true
	return nil
}

func setPosition(b *pebble.Batch, p storage.Position) error {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, positionLength), p.Index)
	return b.Set([]byte{familyPosition}, binary.BigEndian.AppendUint32(value, p.Command), nil)
}

func (s *Store) loadPosition() error {
	value, ok, err := s.logDB.get([]byte{familyPosition})
	if err != nil {
		return fmt.Errorf("store: read the position: %w", err)
	}
	if !ok {
		return nil
	}
	if len(value) != positionLength {
		return fmt.Errorf("store: %w: position of %d bytes, want %d", storage.ErrCorrupt, len(value), positionLength)
	}
	s.position.Lock()
	defer s.position.Unlock()
	s.position.last = storage.Position{Index: binary.BigEndian.Uint64(value), Command: binary.BigEndian.Uint32(value[8:])}
	s.position.begun = true
	return nil
}

// syncCommits makes all commits under positions durable. Without unsynced commits it does nothing.
func (s *Store) syncCommits() error {
	if !s.hasPosition() {
		return nil
	}
	return s.logDB.force()
}
