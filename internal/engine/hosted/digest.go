package hosted

import (
	"context"
	"encoding/hex"
	"slices"

	"go.uber.org/zap"

	"hindsight/internal/model/codec"
)

const (
	// A digest is due at the first end of a record at or after each multiple of digestEvery observations: at
	// the same sequences on every server.
	digestEvery = 4096
	// Of each side the newest digestsKept digests are kept for the other side.
	digestsKept = 2
)

// clear forgets the digests of states that were undone.
func (d *digests) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own, d.owners = nil, nil
}

// keep adds a digest to one side, and tells whether the other side has another digest of the same sequence.
// The lock is held.
func (n stateDigest) keep(side *[]stateDigest, other []stateDigest) (differs bool) {
	*side = append((*side)[max(0, len(*side)+1-digestsKept):], n)
	return slices.ContainsFunc(other, func(o stateDigest) bool { return o.sequence == n.sequence && o.digest != n.digest })
}

// CompareDigest compares the digest of the owner's state at a sequence with that of the state here, now or once
// this server has learned the sequence. It does not wait.
func (m *Model) CompareDigest(sequence uint64, digest string) {
	m.digests.mu.Lock()
	differs := stateDigest{sequence, digest}.keep(&m.digests.owners, m.digests.own)
	m.digests.mu.Unlock()
	if differs {
		m.mismatch(sequence)
	}
}

// digestIfDue keeps the digest of the state if one of the newest rows makes it due. The owner tells it to the
// other servers. It runs at the model's turn and costs O(state).
func (m *Model) digestIfDue(rows uint64) {
	sequence := m.state.machine.Sequence()
	if !m.env.Digests || sequence/digestEvery == (sequence-rows)/digestEvery {
		return
	}
	digest, err := m.digest()
	if err != nil {
		m.env.Log.Error("a state has no digest", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
		return
	}
	m.digests.mu.Lock()
	undone := m.journal.rewound.Load() != 0
	differs := !undone && stateDigest{sequence, digest}.keep(&m.digests.own, m.digests.owners)
	m.digests.mu.Unlock()
	if differs {
		m.mismatch(sequence)
	}
	proposer, ok := m.source.Kept.(interface {
		ProposeDigest(ctx context.Context, sequence uint64, digest string) error
	})
	if !ok || undone || m.env.CheckOwner() != nil {
		return
	}
	if err := proposer.ProposeDigest(m.env.appends, sequence, digest); err != nil {
		m.env.Log.Debug("a digest is not proposed", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
	}
}

// digest is that of the learner's state.
func (m *Model) digest() (string, error) {
	release, err := m.env.Memory.TakeCopies(m.env.appends, m.stateBytes())
	if err != nil {
		return "", err
	}
	defer release()
	s, err := m.state.machine.Snapshot(m.buffer())
	if err != nil {
		return "", err
	}
	digest := codec.Digest(s.Learner)
	return hex.EncodeToString(digest[:]), nil
}
