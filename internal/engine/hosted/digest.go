package hosted

import (
	"context"
	"encoding/hex"
	"slices"

	"go.uber.org/zap"

	"hindsight/internal/model/codec"
)

const (
	// A digest is due at the first end of a record at or after each multiple of digestEvery observations. These
	// sequences are the same on every server.
	digestEvery = 4096
	// A server keeps the newest maxDigests digests of its own and of the owner.
	maxDigests = 2
)

// clear forgets all digests, because a restore has undone their states.
func (d *digests) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest = nil
}

// sides returns the digests of both sides. The caller holds the lock.
func (d *digests) sides() *sides {
	if d.newest == nil {
		d.newest = &sides{}
	}
	return d.newest
}

// keep adds a digest to one side, and reports whether the other side has a different digest of the same sequence. The
// caller holds the lock.
func (n stateDigest) keep(side *[]stateDigest, other []stateDigest) (differs bool) {
	*side = append((*side)[max(0, len(*side)+1-maxDigests):], n)
	return slices.ContainsFunc(other, func(o stateDigest) bool { return o.sequence == n.sequence && o.digest != n.digest })
}

// at returns the digest of a sequence on one side, empty if it is not known. The caller holds the lock.
func at(side []stateDigest, sequence uint64) string {
	n := slices.IndexFunc(side, func(d stateDigest) bool { return d.sequence == sequence })
	if n < 0 {
		return ""
	}
	return side[n].digest
}

// DigestAt returns the digest of this server's state at a sequence. It is empty if the sequence is not among the newest
// with a digest.
func (m *Model) DigestAt(sequence uint64) string {
	m.digests.mu.Lock()
	defer m.digests.mu.Unlock()
	if m.digests.newest == nil {
		return ""
	}
	return at(m.digests.newest.local, sequence)
}

// CompareDigest compares the digest of the owner's state at a sequence with the digest of this server's state. If
// this server has not learned the sequence yet, the comparison follows later. A cold server has no states to compare.
// CompareDigest does not wait.
func (m *Model) CompareDigest(sequence uint64, digest string) {
	if m.env.Cold {
		return
	}
	m.digests.mu.Lock()
	newest := m.digests.sides()
	differs := stateDigest{sequence, digest}.keep(&newest.owners, newest.local)
	local := at(newest.local, sequence)
	m.digests.mu.Unlock()
	if differs {
		m.mismatch(sequence, local)
	}
}

// digestIfDue computes and keeps the digest of the state if one of the newest rows makes it due. The owner also
// proposes the digest to the other servers. It runs at the model's turn and costs O(state).
func (m *Model) digestIfDue(rows uint64) {
	sequence := m.state.machine.Sequence()
	if !m.env.Digests || m.env.Cold || sequence/digestEvery == (sequence-rows)/digestEvery {
		return
	}
	digest, err := m.digest()
	if err != nil {
		m.env.Log.Error("the server cannot compute the digest of a state", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
		return
	}
	m.digests.mu.Lock()
	undone := m.journal.rewound.Load() != 0
	newest := m.digests.sides()
	differs := !undone && stateDigest{sequence, digest}.keep(&newest.local, newest.owners)
	m.digests.mu.Unlock()
	if differs {
		m.mismatch(sequence, digest)
	}
	proposer, ok := m.source.Handle.(interface {
		ProposeDigest(ctx context.Context, sequence uint64, digest string) error
	})
	if !ok || undone || m.env.CheckOwner() != nil {
		return
	}
	if err := proposer.ProposeDigest(m.env.appends, sequence, digest); err != nil {
		m.env.Log.Debug("the owner cannot propose a digest", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
	}
}

// digest returns the digest of the learner's state.
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
