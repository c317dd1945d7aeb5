package replicated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
)

// applier is the state that only Apply uses.
type applier struct {
	// failed is the first error. After it Apply applies nothing, because the position of a later command would cover
	// the missing one.
	failed  error
	command command.Command
	// proposer proposed the last entry.
	proposer [16]byte
}

// Apply applies an entry of the log to the local store. The log calls Apply with every entry, one at a time, in the
// order of the log, with ascending indices. After a restart the log may begin with entries that the store already
// has. An error means that this server can apply neither the entry nor later ones: the local store failed, or the
// entry has a newer version or another group. After a restart Apply applies the failed command again.
func (s *Store) Apply(index uint64, entry []byte) error {
	if s.apply.failed != nil {
		return s.apply.failed
	}
	if err := s.applyEntry(index, entry); err != nil {
		s.apply.failed = fmt.Errorf("replicated: apply entry %d: %w", index, err)
	}
	return s.apply.failed
}

func (s *Store) applyEntry(index uint64, entry []byte) error {
	e, err := command.Decode(entry)
	if err != nil {
		return err
	}
	if e.Group != s.o.Group {
		return fmt.Errorf("%w: group %d, want group %d", command.ErrMalformed, e.Group, s.o.Group)
	}
	proposedHere, after := e.Proposer == s.batcher.proposer, s.Position()
	// An owner that follows another one ends the transfers of the previous owner. After a restart the store has done so for
	// the entries that it has.
	if index > after.Index && e.Proposer != s.apply.proposer {
		if err := s.DropOtherParts(e.Proposer); err != nil {
			return err
		}
		if s.apply.proposer = e.Proposer; !proposedHere {
			s.others.Add(1)
		}
	}
	var calls []*call
	if proposedHere {
		if f := s.batcher.flight(e.Serial); f != nil {
			calls = f.calls
		}
	}
	for n := uint32(0); ; n++ {
		raw, ok, err := e.Next()
		if !ok {
			return err
		}
		p, waits := storage.Position{Index: index, Command: n}, (*call)(nil)
		if int(n) < len(calls) {
			waits = calls[n]
		}
		switch raw.Kind {
		case command.Part:
			err = s.applyPart(p, after, e.Proposer, raw, waits)
		case command.Join:
			err = s.applyJoin(p, after, e.Proposer, raw, waits)
		default:
			err = s.applyCommand(p, after, proposedHere, raw, waits)
		}
		if err != nil {
			for _, c := range calls[min(int(n), len(calls)):] {
				c.answer(nil, err)
			}
			return fmt.Errorf("command %d: %w", n, err)
		}
	}
}

// applyCommand applies the command at a position, unless the local store has the command. The server that proposed
// snapshots or ids has them already. The store has the other commands up to the position after. Changes of pending
// predictions have no position: PutPending, Expire, and the answers of an Append. After a restart they are applied again
// in the same order, so that a replayed PutPending brings no answered or expired row back.
func (s *Store) applyCommand(p, after storage.Position, proposedHere bool, raw command.Raw, waits *call) error {
	switch raw.Kind {
	case command.PutPending, command.Expire:
	case command.PutIDs:
		if proposedHere {
			waits.answer(nil, nil)
			return nil
		}
		fallthrough
	default:
		if p.Compare(after) <= 0 {
			return s.answerAgain(raw)
		}
	}
	if err := s.apply.command.Decode(raw); err != nil {
		return err
	}
	if raw.Kind == command.Expire && p.Compare(after) <= 0 {
		s.apply.command.Keep = math.MaxInt64 // Later commands may have put ids as old.
	}
	change, err := s.effect(p, &s.apply.command, proposedHere)
	if err != nil && !rejected(err) {
		waits.answer(nil, err)
		return err
	}
	m, _ := change.Model.(*Model)
	// The caller of a Digest or a Snapshot, which gets no index by its answer, waits until Changed has the index.
	indexed := change.Index > 0
	if err == nil && change.Kind != 0 && s.o.Changed != nil && (indexed || !waits.answer(m, nil)) {
		s.o.Changed(change)
	}
	waits.answer(m, err)
	return nil
}

// answerAgain removes the pending predictions that an applied command answers.
func (s *Store) answerAgain(raw command.Raw) error {
	if raw.Kind != command.Append && raw.Kind != command.Join {
		return nil
	}
	if err := s.apply.command.Decode(raw); err != nil {
		return err
	}
	if m, ids := s.model(raw.Model), s.apply.command.Answered; m != nil && len(ids) > 0 {
		if err := m.RemovePending(ids); err != nil && !rejected(err) {
			return err
		}
	}
	return nil
}

// rejected reports whether every server answers a command with this error, so that the command has no effect.
func rejected(err error) bool {
	return errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrRejected) ||
		errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrInvalidID)
}

// effect applies the command at a position to the local store, and returns what changed.
func (s *Store) effect(p storage.Position, c *command.Command, proposedHere bool) (storage.Change, error) {
	if c.Model != 0 {
		m := s.model(c.Model)
		if m == nil {
			return storage.Change{}, fmt.Errorf("model %d: %w", c.Model, storage.ErrDeleted)
		}
		return m.effect(p, c, proposedHere)
	}
	ctx, change := storage.At(context.Background(), p), storage.Change{Name: c.Name, Value: bytes.Clone(c.Value)}
	var made storage.Model
	var err error
	switch c.Kind {
	case command.Create:
		made, err = s.local.Create(ctx, c.Name, c.Value)
	case command.Import:
		from := storage.Import{Sequence: c.Sequence, Snapshot: c.Snapshot, IDs: c.IDs, Pending: c.Pending}
		made, err = s.local.Import(ctx, c.Name, c.Value, from)
	case command.PutAlias:
		change.Kind, err = storage.AliasSet, s.local.PutAlias(ctx, c.Name, c.Value)
	case command.Expire:
		return change, s.applyExpire(&s.apply.command)
	case command.Raise:
		err = s.local.Raise(ctx, uint32(min(c.Sequence, math.MaxUint32)), c.Name)
	case command.RemoveAlias:
		change.Kind, err = storage.AliasRemoved, s.local.RemoveAlias(ctx, c.Name)
	default:
		err = fmt.Errorf("%w: kind %d without a model", command.ErrMalformed, c.Kind)
	}
	if made != nil {
		change.Kind, change.Model = storage.Created, s.handle(c.Name, made)
	}
	return change, err
}

// applyExpire removes expired predictions and old ids. It has no position: removing rows again is a no-op.
func (s *Store) applyExpire(c *command.Command) error {
	if c.Expired.After(s.Time()) {
		s.time.Store(c.Expired.UnixNano())
	}
	err := s.local.Expire(context.Background(), c.Expired, func(m storage.Model) {
		if out := s.model(m.Number()); out != nil {
			s.expired.Lock()
			s.expired.models = append(s.expired.models, out)
			s.expired.Unlock()
		}
	})
	if err == nil {
		err = s.local.Forget(context.Background(), c.Forgotten, int(min(c.Keep, math.MaxInt)))
	}
	return err
}

func (m *Model) effect(p storage.Position, c *command.Command, proposedHere bool) (storage.Change, error) {
	change := storage.Change{Name: m.name, Model: m}
	if c.Kind == command.Append {
		change.Kind, change.Sequence = storage.Appended, c.Record.Last
		return change, m.append(context.Background(), p, storage.Commit{Record: c.Record, IDs: c.IDs, Answered: c.Answered}, proposedHere)
	}
	ctx, err := storage.At(context.Background(), p), error(nil)
	switch c.Kind {
	case command.SetValue:
		change.Kind, change.Value, change.Also = storage.ValueSet, bytes.Clone(c.Value), slices.Clone(c.Also)
		for n := range change.Also {
			change.Also[n].Value = bytes.Clone(change.Also[n].Value)
		}
		err = m.localModel.SetValue(ctx, c.Value, c.Also...)
	case command.Delete:
		change.Kind = storage.Removed
		if err = m.localModel.Delete(ctx); err == nil {
			m.store.drop(m)
		}
	case command.Rewind:
		change.Kind, change.Sequence, change.Value = storage.Rewound, c.Sequence, bytes.Clone(c.Value)
		r := storage.Rewind{Sequence: c.Sequence, Last: c.Last, Value: c.Value, Snapshot: c.Snapshot, IDs: c.IDs}
		if c.Forget {
			r.Undone = m.store.o.Undone(c.Sequence)
		}
		m.ids.Lock()
		defer m.ids.Unlock()
		m.ids.appendedHere, m.ids.rewound = false, m.ids.follows
		err = m.localModel.Rewind(ctx, r)
	case command.PutIDs:
		m.ids.Lock()
		defer m.ids.Unlock()
		m.ids.appendedHere = false
		err = m.localModel.PutIDs(ctx, c.IDs)
	case command.PutPending:
		err = m.localModel.PutPending(c.Pending)
	case command.Digest:
		change.Kind, change.Sequence, change.Index, change.Digest = storage.Digested, c.Sequence, p.Index, m.digest(c)
	case command.Snapshot:
		change.Kind, change.Sequence, change.Index = storage.Snapshotted, c.Sequence, p.Index
		if !proposedHere { // The proposer has the snapshot.
			change.Value = codec.AppendBytes(make([]byte, 0, len(c.Snapshot)), c.Snapshot)
		}
	default:
		err = fmt.Errorf("%w: kind %d with a model", command.ErrMalformed, c.Kind)
	}
	return change, err
}

// unreadable is in place of a digest of rows that this server cannot read, and differs from the digests of other servers.
const unreadable = "unreadable"

// digest digests the rows of a command, and the last record. Each server has the ids of earlier records, and derives those
// of the last record at another time.
func (m *Model) digest(c *command.Command) string {
	last, err := m.Last()
	before, record := uint64(0), []byte(nil)
	if err == nil && last > 0 {
		err = m.Replay(context.Background(), last-1, func(r storage.Record) error {
			before, record = r.First-1, bytes.Clone(r.Data)
			return nil
		})
	}
	rows := ""
	if err == nil {
		rows, err = m.DigestRows(storage.Rows{From: c.From, To: c.To, Since: c.Forgotten, Without: m.store.o.Undone(before)})
	}
	if err != nil {
		return unreadable
	}
	return fmt.Sprintf("%s %d %x", rows, last, sha256.Sum256(record))
}

// append applies a commit at a position. The local store may know its ids: this server has derived them from its log,
// an earlier process has put them, or this server forgets old ids later than the proposer. So append first puts ids with
// a known one, by the call whose counts are exact for known ids. After a crash the store has the ids if it has the
// position.
func (m *Model) append(ctx context.Context, p storage.Position, c storage.Commit, proposedHere bool) error {
	m.ids.Lock()
	defer m.ids.Unlock()
	if (!proposedHere || !m.ids.appendedHere) && slices.ContainsFunc(c.IDs, m.mayKnow) {
		last, err := m.Last()
		if err != nil {
			return err
		}
		if c.First == last+1 && c.Last >= c.First { // Append rejects all other commits, as a whole.
			if err := m.localModel.PutIDs(ctx, c.IDs); err != nil {
				return err
			}
			c.IDs = nil
		}
	}
	err := m.localModel.Append(storage.At(ctx, p), c)
	if err == nil {
		m.ids.appendedHere = proposedHere
	}
	return err
}

// mayKnow reports whether the local store has an id, or a row of the id that cannot be read.
func (m *Model) mayKnow(id storage.ID) bool {
	_, known, err := m.ID(id.ID)
	return known || err != nil
}
