package replicated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

const (
	// A command of more than maxPart bytes travels in parts of minPart to maxPart bytes.
	minPart = 16 << 10
	maxPart = 256 << 10
	// The first of probeEvery parts has no bytes: it measures the usual time of an entry.
	probeEvery = 16
	// A server that loses the log often owns it again at once, because its log is the longest. A part that fails partTries times
	// one after the other ends its transfer.
	partTries = 3
	// A transfer waits ownAgainTimeout until its server owns the log again.
	ownAgainTimeout = 3 * time.Second
)

// pace chooses the sizes of the parts of a command. The entries of others wait for a part on its way to another server. So
// a part may take about twice the usual time of an entry, and some milliseconds. On a busy machine some parts are slow at
// any size: the parts grow twofold, and shrink by a quarter.
type pace struct {
	parts, size int
	usual       time.Duration
}

func (p *pace) next() int {
	p.parts++
	if p.parts%probeEvery == 1 {
		return 0
	}
	return p.size
}

func (p *pace) took(size int, d time.Duration) {
	const some = 10 * time.Millisecond
	switch {
	case size == 0 && p.usual == 0:
		p.usual = d
	case size == 0:
		p.usual += (d - p.usual) / 4
	case d < (3*p.usual+some)/2:
		p.size = min(2*p.size, maxPart)
	case d > 2*p.usual+some:
		p.size = max(p.size-p.size/4, minPart)
	}
}

// transferKey returns the key of the parts of a transfer, which is the key of no model.
func transferKey(number uint64) uint64 { return 1<<63 | number }

// proposeParts puts a large command into the log: its parts, one after the other, and a Join, which applies the command.
// Only the Join has the keys of the command, so that other commands of the same keys pass the parts. The command comes
// as its encoded body. A part whose outcome is unknown is sent again, and replaces the first one.
// If another server has proposed meanwhile, its entry has dropped the parts.
func (s *Store) proposeParts(ctx context.Context, c *command.Command, body []byte) (m *Model, err error) {
	defer s.hold(len(body))()
	c.Snapshot = nil // The body has a copy.
	number := s.transfers.Add(1)
	key := [2]uint64{transferKey(number), transferKey(number)}
	join := command.Command{
		Kind: command.Join, Model: c.Model, Transfer: number, Size: uint64(len(body)), Joined: c.Kind, Answered: c.Answered,
	}
	pace, others := pace{size: minPart}, s.others.Load()
	whole := body
	for at, tries := 0, 0; len(body) > 0; {
		part := command.Command{Kind: command.Part, Transfer: number, Offset: uint64(at), Data: body[:min(pace.next(), len(body))]}
		begun := time.Now() //nolint:forbidigo // A duration; only the sizes of parts depend on it.
		if _, err := s.wait(ctx, newCall(&part, key)); err != nil {
			if tries++; tries < partTries && s.ownsAgain(ctx, err) && s.others.Load() == others {
				continue
			}
			s.dropTransfer(number, key)
			return nil, err
		}
		pace.took(len(part.Data), time.Since(begun))
		body, at, tries = body[len(part.Data):], at+len(part.Data), 0
	}
	sent := newCall(&join, keysOf(c))
	sent.whole, sent.others = whole, others
	if m, err = s.wait(ctx, sent); err != nil {
		s.dropTransfer(number, key)
	}
	return m, err
}

// ownsAgain waits after a failed proposal until this server owns the log again. It returns false if the wait or the error
// allows no further proposal.
func (s *Store) ownsAgain(ctx context.Context, err error) bool {
	if !errors.Is(err, storage.ErrNotOwner) && !errors.Is(err, storage.ErrUnknown) {
		return false
	}
	const interval = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, ownAgainTimeout)
	defer cancel()
	for !s.o.Owner() {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// dropTransfer drops the parts of a transfer that has failed. It does not wait. If the command is lost, the parts stay until
// another process owns the store.
func (s *Store) dropTransfer(number uint64, key [2]uint64) {
	drop := command.Command{Kind: command.Join, Transfer: number}
	_ = s.batcher.add(newCall(&drop, key)) // A closed store does not own the log any more.
}

// applyPart keeps a part in the local store, unless the store has had the part.
func (s *Store) applyPart(p, after storage.Position, proposer [16]byte, raw command.Raw, waits *call) error {
	if p.Compare(after) > 0 {
		c := &s.apply.command
		if err := c.Decode(raw); err != nil {
			return err
		}
		t := storage.Transfer{Proposer: proposer, Number: c.Transfer}
		if err := s.PutPart(storage.At(context.Background(), p), t, c.Offset, c.Data); err != nil {
			return err
		}
	}
	waits.answer(nil, nil)
	return nil
}

// applyJoin applies the command that has arrived in parts, and drops the parts. Without all parts the command has no effect
// on any server: which parts a server has depends on the log alone. The effect of the command and its position are one
// batch, and the parts are dropped behind it. So after a crash the store has the effect or all parts, and has dropped the
// parts if it has the position of a later command.
func (s *Store) applyJoin(p, after storage.Position, proposer [16]byte, raw command.Raw, waits *call) error {
	c := &s.apply.command
	if err := c.Decode(raw); err != nil {
		return err
	}
	t, err := storage.Transfer{Proposer: proposer, Number: c.Transfer}, error(nil)
	if p.Compare(after) <= 0 {
		if err = s.answerAgain(raw); p != after {
			return err
		}
	} else if c.Joined != 0 {
		err = s.applyJoined(p, after, t, c.Size, command.Raw{Kind: c.Joined, Model: c.Model}, waits)
	}
	if err != nil {
		return err
	}
	return s.DropParts(t)
}

func (s *Store) applyJoined(p, after storage.Position, t storage.Transfer, size uint64, raw command.Raw, waits *call) (err error) {
	if waits != nil && waits.whole != nil && waits.others == s.others.Load() {
		raw.Body = waits.whole // The caller counts its memory.
	} else {
		defer s.hold(int(size))()
		raw.Body, err = s.JoinParts(t, size)
	}
	if errors.Is(err, storage.ErrNotFound) { // Another server has owned the log meanwhile.
		waits.answer(nil, fmt.Errorf("%w: %w", storage.ErrNotOwner, err))
		return nil
	}
	if err != nil {
		return err
	}
	err = s.applyCommand(p, after, t.Proposer == s.batcher.proposer, raw, waits)
	s.apply.command = command.Command{} // This frees the large lists.
	return err
}

// hold counts the memory of a large command until the caller calls free.
func (s *Store) hold(bytes int) (free func()) {
	if s.o.Held == nil {
		return func() {}
	}
	s.o.Held(int64(bytes))
	return func() { s.o.Held(-int64(bytes)) }
}
