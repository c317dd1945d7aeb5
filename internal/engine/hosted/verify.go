package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/snapshot"
)

// sent is a snapshot that the owner has sent by an entry of the log. On the owner, State is the digest of the captured state. On
// a cold server, State is the digest of the state after a replay.
type sent struct {
	digested
	// asked: another server waits for the digest. tried: the log cannot be replayed up to the snapshot.
	asked, tried bool
}

// unreadable is in place of the digest of a snapshot that this server cannot read.
const unreadable = "unreadable"

// change calls f with the snapshot of a sequence.
func (d *digests) change(sequence uint64, f func(*sent)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := slices.IndexFunc(d.sent, func(s sent) bool { return s.sequence == sequence })
	if n < 0 {
		d.sent = append(d.sent, sent{digested: digested{sequence: sequence}})
		d.sent = slices.Delete(d.sent, 0, max(0, len(d.sent)-maxDigests))
		n = len(d.sent) - 1
	}
	f(&d.sent[n])
}

// unverified returns a snapshot that another server asks about, or else the newest snapshot if it is not verified.
func (d *digests) unverified(newest uint64) (out sent, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sent {
		if s.State == "" && !s.tried && (s.asked && s.sequence <= newest || !ok && s.sequence == newest) {
			out, ok = s, true
		}
	}
	return out, ok
}

// digestOf returns the digest of all that a snapshot has of a state.
func digestOf(s *snapshot.Snapshot) string {
	whole := sha256.New()
	for _, part := range [][]byte{s.Learner, s.Account, s.History} {
		sum := snapshot.Digest(part)
		whole.Write(sum[:]) // A hash never fails.
	}
	return hex.EncodeToString(whole.Sum(nil))
}

// Verify compares a snapshot that the owner has sent with the state that this cold server learns from the log behind an earlier
// snapshot. If they differ, this server does not use the snapshot and later ones, and the voters decide which server is wrong.
// Verify returns false if no snapshot is to be verified. It does not notice a fault that the earlier snapshot has.
func (m *Model) Verify(ctx context.Context) bool {
	s := &m.snapshots
	next, ok := m.digests.unverified(s.newest.Load())
	if !ok || !m.env.RestsCold() || s.lock(ctx) != nil {
		return false
	}
	epoch := s.epoch.Load()
	base, err := s.base(next.sequence)
	s.unlock()
	var state, received string
	if err == nil {
		state, received, err = m.replayed(ctx, base, next.sequence)
	}
	if s.lock(ctx) != nil {
		return false
	}
	defer s.unlock()
	if s.epoch.Load() != epoch || m.journal.rewound.Load() != 0 || !m.env.RestsCold() {
		return true // The model was restored or deleted, or this server owns the log now.
	}
	m.digests.change(next.sequence, func(s *sent) { s.State, s.tried = state, err != nil })
	log := m.env.Log.With(zap.String("model", m.ID()), zap.Uint64("sequence", next.sequence), zap.Uint64("from", base))
	switch received {
	case "":
		log.Debug("a snapshot of the owner cannot be verified", zap.Error(err))
	case state:
		s.checked, s.checkedEpoch, s.unchecked = next.sequence, epoch, 0
		log.Debug("a snapshot of the owner is verified", zap.Error(s.dropSuspects(next.sequence)))
	default:
		if s.suspect == 0 || next.sequence < s.suspect {
			s.suspect = next.sequence
		}
		m.env.Counters.DigestMismatches.Add(1)
		log.Error("a snapshot of the owner differs from what this server learns from the log")
		m.env.Compare(m.ID(), next.index, storage.Digest{State: state})
	}
	return true
}

// replayed returns the digest of the state at a sequence, learned from the log behind a snapshot, and the digest of the received
// snapshot, which is empty if newer snapshots have replaced it. The replay ends once this server owns the log.
func (m *Model) replayed(ctx context.Context, base, sequence uint64) (state, received string, err error) {
	release, err := m.env.Memory.TakeCopies(ctx, (1+copiesOf)*m.stateBytes())
	if err != nil {
		return "", "", err
	}
	defer release()
	data, err := m.snapshots.store.ReadSnapshot(sequence)
	if err == nil {
		var s snapshot.Snapshot
		if s, err = snapshot.Decode(data); err == nil {
			received = digestOf(&s)
		}
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		received = unreadable
	}
	r, err := m.source.RestoreNewest(base, m.skipSnapshot)
	if err == nil {
		r, err = m.source.Replay(ctx, r, sequence, func(*record.Record, []record.Answer) error {
			if !m.env.RestsCold() {
				return context.Canceled
			}
			return nil
		})
	}
	if err == nil && r.Sequence() != sequence {
		err = fmt.Errorf("the log ends at sequence %d: %w", r.Sequence(), machine.ErrCorrupt)
	}
	if err != nil {
		return "", "", err
	}
	s, err := r.Machine.Snapshot(make([]byte, 0, r.Size()+slack))
	return digestOf(&s), received, err
}

// base returns the snapshot from which a replay to a sequence begins: the checked one, or else the oldest, 0 without any. The
// caller holds disk.
func (s *snapshots) base(sequence uint64) (base uint64, err error) {
	sequences, err := s.store.Snapshots()
	for _, older := range sequences { // The newest first.
		if older < sequence && (s.suspect == 0 || older < s.suspect) {
			if base = older; base == s.checked {
				break
			}
		}
	}
	return base, err
}

// dropSuspects removes the snapshots before a sequence that differ from the log. The caller holds disk.
func (s *snapshots) dropSuspects(before uint64) error {
	if s.suspect == 0 {
		return nil
	}
	sequences, err := s.store.Snapshots()
	newest := uint64(0)
	for _, sequence := range slices.Backward(sequences) {
		if err == nil && sequence >= s.suspect && sequence < before {
			err = s.store.RemoveSnapshot(sequence)
		} else {
			newest = sequence
		}
	}
	if err == nil {
		s.suspect = 0
		s.newest.Store(newest)
	}
	return err
}
