package hosted

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

const (
	// A server keeps the newest maxDigests digests of a model.
	maxDigests = 4
	// A check has at most checkRows ids and checkRows pending predictions, because the log waits while a server digests
	// them.
	checkRows = 2048
)

type digested struct {
	storage.Digest
	index    uint64
	sequence uint64
}

// cancel asks for no digest of a state any more, because a rewind undoes states. The caller holds the lock.
func (d *digests) cancel() {
	for n := range d.newest {
		d.newest[n].sequence = 0
	}
	d.sent = nil
}

// Digest returns the digest of this server's model after an entry. If another server has another digest, Digest counts and
// logs the difference.
func (m *Model) Digest(index uint64, other storage.Digest) (here storage.Digest) {
	m.digests.mu.Lock()
	if n := slices.IndexFunc(m.digests.newest, func(d digested) bool { return d.index == index }); n >= 0 {
		here = m.digests.newest[n].Digest
	} else if n := slices.IndexFunc(m.digests.sent, func(s sent) bool { return s.index == index }); n >= 0 {
		s := &m.digests.sent[n]
		here, s.asked = s.Digest, true
		select {
		case m.env.Asked <- m:
		default: // The other server asks again.
		}
	}
	m.digests.mu.Unlock()
	if here.Differs(other) {
		m.env.Counters.DigestMismatches.Add(1)
		m.env.Log.Error("a model differs from another server's", zap.String("model", m.ID()), zap.Uint64("entry", index),
			zap.Bool("rows", here.Rows != other.Rows), zap.Bool("state", here.State != other.State))
	}
	return here
}

// Digested takes the digest of the rows after an entry, and makes the model digest its state once it is at a sequence. It
// does not wait.
func (m *Model) Digested(index, sequence uint64, rows string) {
	if m.env.RestsCold() {
		sequence = 0
	}
	m.digests.mu.Lock()
	m.digests.newest = append(m.digests.newest, digested{storage.Digest{Rows: rows}, index, sequence})
	m.digests.newest = slices.Delete(m.digests.newest, 0, max(0, len(m.digests.newest)-maxDigests))
	m.digests.mu.Unlock()
	if sequence > 0 && m.Resident() {
		m.box.Post()
	}
}

// digestIfAsked digests the state if a check asks for its sequence. It runs at the model's turn and costs O(state).
func (m *Model) digestIfAsked() {
	if m.state.machine == nil || m.state.broken != nil {
		return
	}
	sequence := m.state.machine.Sequence()
	asks := func(d digested) bool { return d.sequence == sequence && d.State == "" }
	m.digests.mu.Lock()
	asked := sequence > 0 && slices.ContainsFunc(m.digests.newest, asks)
	m.digests.mu.Unlock()
	if !asked {
		return
	}
	digest, err := m.digest()
	if err != nil {
		m.env.Log.Error("the server cannot compute the digest of a state", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
		return
	}
	m.digests.mu.Lock()
	defer m.digests.mu.Unlock()
	for n := range m.digests.newest {
		if d := &m.digests.newest[n]; asks(*d) && m.journal.rewound.Load() == 0 {
			d.State = digest
		}
	}
}

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
	return digestOf(&s), nil
}

// Check compares a part of the model with the models of the other servers: its registered value, rows from an id on, and
// its state if that is in memory. It returns where the next part begins, empty at the end. The ids that are older than
// since may be forgotten.
func (m *Model) Check(ctx context.Context, from string, since time.Time) (next string, err error) {
	store := m.source.Handle
	proposer, ok := store.(interface {
		ProposeDigest(ctx context.Context, sequence uint64, r storage.Rows) error
	})
	if !ok {
		return "", nil
	}
	end, err := store.RowsEnd(from, checkRows)
	if err != nil {
		return "", m.id.storagef("count its rows", err)
	}
	var proposed digested
	// Work that has begun goes on after Check has returned: it reads end, which no return statement writes.
	err = m.box.Do(ctx, func(context.Context) error {
		sequence := uint64(0)
		if m.state.machine != nil && m.state.broken == nil && !m.env.Cold { // Cold servers have no state at the sequence.
			sequence = m.state.machine.Sequence()
		}
		// No record of the model is between its state and the digest of its rows, because both have one turn.
		if err := proposer.ProposeDigest(ctx, sequence, storage.Rows{From: from, To: end, Since: since}); err != nil {
			return m.id.storagef("propose a digest", err)
		}
		m.digestIfAsked()
		m.digests.mu.Lock()
		defer m.digests.mu.Unlock()
		if n := len(m.digests.newest); n > 0 {
			proposed = m.digests.newest[n-1]
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("engine: check model %q: %w", m.ID(), err)
	}
	if proposed.index > 0 {
		m.env.Compare(m.ID(), proposed.index, proposed.Digest)
	}
	return end, nil
}
