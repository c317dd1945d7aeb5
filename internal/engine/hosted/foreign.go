package hosted

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// foreign is what other servers did to a replicated log. In a log that this server alone writes, it is zero.
type foreign struct {
	// grown: the log may have records that state, store and recent do not know. Grown sets it, the turn
	// clears it.
	grown atomic.Bool
	// told is the end of the log that Grown was told, or that the model left memory with.
	told atomic.Uint64
	// rewound is 1 + the least sequence of the rewinds that the model has not followed, 0 without any.
	rewound atomic.Uint64
	// posted: follow has been queued and has not begun.
	posted atomic.Bool
}

// reached notes that the model knows the log up to a sequence, and tells whether the log is longer.
func (j *journal) reached(sequence uint64) (longer bool) {
	j.grown.Store(false) // A later record sets it again.
	last, err := j.store.Last()
	if err != nil || last > sequence {
		j.grown.Store(true)
	}
	return err == nil && last > sequence
}

// Grown notes that another server has appended, and that the log ends at a sequence. The model learns what was
// appended at its turn, unless it is not in memory: then only its replay gets longer. Grown does not wait. One
// goroutine at a time calls Grown, Rewound and CompareDigest.
func (m *Model) Grown(sequence uint64) {
	m.journal.grown.Store(true)
	if !m.Resident() {
		before := m.journal.told.Swap(sequence)
		more := int64(sequence - min(before, sequence))
		if before == 0 {
			more, _ = m.journal.behind() // A load meets the error.
		}
		m.snapshots.replay.Add(more * max(m.snapshots.cost.Load(), int64(ReadCost)))
	}
	m.postFollow()
}

// Rewound notes that another server has rewound the log to a sequence, which the model follows at its turn. It
// does not wait.
func (m *Model) Rewound(sequence uint64) {
	m.digests.mu.Lock()
	m.digests.own, m.digests.owners = nil, nil
	if pending := m.journal.rewound.Load(); pending == 0 || sequence+1 < pending {
		m.journal.rewound.Store(sequence + 1)
	}
	m.digests.mu.Unlock()
	m.box.Post(m.follow)
}

// Supersede lets no capture of before be written. It runs at the model's turn.
func (m *Model) Supersede(ctx context.Context) error { return m.snapshots.supersede(ctx) }

// InheritRewind lets the model follow what another handle of it has not followed.
func (m *Model) InheritRewind(other *Model) {
	if pending := other.journal.rewound.Load(); pending != 0 {
		m.Rewound(pending - 1)
	}
}

// Warm loads the model soon, unless memory is half full, and learns what other servers have appended.
func (m *Model) Warm() {
	if !m.env.Memory.HalfFull() {
		m.box.Post(func() { _ = m.load() }) // load logs a failure, and the next caller tries again.
	}
}

// postFollow queues follow, unless that has nothing to do.
func (m *Model) postFollow() {
	if (m.Resident() || m.snapshots.replayDue(&m.env.Options)) && !m.journal.posted.Swap(true) {
		m.box.Post(m.follow)
	}
}

// follow learns some of what other servers have appended, and queues itself for the rest, so that other jobs
// have their turn. It loads a model whose replay has become so long that a snapshot is due.
func (m *Model) follow() {
	m.journal.posted.Store(false)
	more, err := false, error(nil)
	if m.journal.rewound.Load() != 0 || m.snapshots.replayDue(&m.env.Options) {
		err = m.load()
	}
	if err == nil {
		more, err = m.advance(MaxCommitRows)
	}
	switch {
	case err != nil:
		m.env.Log.Debug("a model cannot follow its log now", zap.String("model", m.ID()), zap.Error(err))
	case more:
		m.postFollow()
	}
}

// Advance learns everything that other servers have appended. It runs at the model's turn.
func (m *Model) Advance() error {
	for m.journal.grown.Load() || m.journal.rewound.Load() != 0 {
		if more, err := m.advance(MaxCommitRows); err != nil || !more {
			return err
		}
	}
	return nil
}

// advance learns records of other servers, until there are no more or they have so many rows. It tells whether
// there are more. A model that is not in memory stays as it is.
func (m *Model) advance(rows uint64) (more bool, err error) {
	if m.journal.rewound.Load() != 0 {
		if err := m.followRewind(); err != nil {
			return false, err
		}
	}
	if m.state.machine == nil || m.state.broken != nil {
		return false, m.state.broken
	}
	begin := m.state.machine.Sequence()
	end := begin
	var records []record.Record
	var answered []string
	err = m.journal.store.Replay(m.env.appends, begin, func(logged storage.Record) error {
		r, err := recovery.DecodeNext(logged, end)
		if err != nil {
			return err
		}
		records, answered, end = append(records, r), recovery.AppendAnswered(answered, &r), logged.Last
		if end-begin >= rows {
			return recovery.ErrReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, recovery.ErrReached) {
		return false, m.lost(begin, m.id.storagef("read what other servers have appended", err))
	}
	if len(answered) > 0 && m.pending.store.CountWaiting() > 0 {
		if err := m.pending.store.RemoveWaiting(answered); err != nil {
			return false, m.id.storagef("forget answered predictions", err)
		}
	}
	for n := range records {
		if err := m.relearn(records[n]); err != nil {
			return false, err
		}
	}
	more = m.journal.reached(end)
	if len(records) > 0 {
		m.afterCommit()
	}
	return more, nil
}

// relearn lets the machine learn a record of another server, whose memory it takes.
func (m *Model) relearn(r record.Record) error {
	c := m.newCommit()
	defer c.free()
	c.record = r
	if !r.Complete {
		if err := m.journal.writeIDs(m.env.appends); err != nil {
			return err
		}
	}
	begun := m.env.Now()
	if err := c.learn(len(r.Observations)); err != nil {
		return err
	}
	ended := m.env.Now()
	m.env.Stages.Learn(ended.Sub(begun).Seconds(), "")
	m.journal.recent.clear() // They came to the store with this record.
	c.learned(begun, ended)
	return nil
}

// lost breaks a model whose log cannot be replayed after a sequence, unless err may pass.
func (m *Model) lost(sequence uint64, err error) error {
	if errors.Is(err, ErrCorrupt) && m.journal.rewound.Load() == 0 {
		m.forget()
		m.Break(err)
		m.mismatch(sequence)
	}
	return err
}

// followRewind restores the state to which another server has rewound the log. It runs at the model's turn.
func (m *Model) followRewind() error {
	pending := m.journal.rewound.Load()
	sequence := pending - 1
	err := m.restoreRewound(sequence)
	if err != nil && !errors.Is(err, ErrCorrupt) || !m.journal.rewound.CompareAndSwap(pending, 0) {
		return err // The next turn tries again, or follows a rewind that went further.
	}
	if err != nil {
		return m.lost(sequence, err)
	}
	m.owner.Restored(sequence)
	m.news.wake()
	if m.journal.reached(sequence) {
		m.postFollow()
	}
	return nil
}

// restoreRewound restores the state at a sequence that the log was rewound to.
func (m *Model) restoreRewound(sequence uint64) error {
	copied, err := m.env.Memory.TakeCopies(m.env.Lifetime, copiesOf*m.stateBytes())
	if err != nil {
		return m.env.closedOr(err)
	}
	defer copied()
	if err := m.snapshots.lock(m.env.Lifetime); err != nil {
		return m.env.closedOr(err)
	}
	defer m.snapshots.unlock()
	m.snapshots.epoch.Add(1)
	m.forget()
	// A snapshot that was being written during the rewind is of a state that was undone.
	kept, err := m.snapshots.store.Snapshots()
	for n := 0; n < len(kept) && kept[n] > sequence && err == nil; n++ {
		err = m.snapshots.store.RemoveSnapshot(kept[n])
	}
	if err != nil {
		return m.id.storagef("remove snapshots of what was undone", err)
	}
	started := m.env.Now()
	r, err := m.recoverAt(m.env.Lifetime, sequence)
	if err != nil {
		return m.env.closedOr(m.id.errorf(fmt.Sprintf("follow a restore to sequence %d", sequence), err))
	}
	m.setRestoring(false)
	m.Publish(r, m.env.Now().Sub(started))
	return nil
}

// AwaitRewind refuses the use of a model whose rewind a crash has interrupted, until Rewound tells that the
// rewind is complete. It is called before the model is hosted.
func (m *Model) AwaitRewind() {
	m.setRestoring(true)
	m.Break(fmt.Errorf("%w: the restore of model %q is not complete", ErrOverloaded, m.ID()))
}

// deriveGrown is DeriveIDs of a log to which other servers have appended.
func (m *Model) deriveGrown(ctx context.Context) error {
	return m.box.Do(ctx, func(context.Context) error {
		err := m.load()
		if err == nil {
			err = m.Advance()
		}
		if m.state.broken != nil {
			err = nil // Nothing can be derived from its log.
		}
		return err
	})
}

// Await waits until the model has learned a sequence. It loads the model.
func (m *Model) Await(ctx context.Context, sequence uint64) error {
	for {
		changed := m.news.next()
		if err := m.lockLoaded(ctx); err != nil {
			return err
		}
		learned, broken := m.state.machine.Sequence(), m.state.broken
		m.state.RUnlock()
		if learned >= sequence && m.journal.rewound.Load() == 0 {
			return nil
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("engine: wait for sequence %d of model %q, which has learned %d: %w", sequence, m.ID(), learned, context.Cause(ctx))
		case <-m.env.Lifetime.Done():
			return ErrClosed
		}
	}
}

// signal wakes all who wait for it.
type signal struct{ waiting atomic.Pointer[chan struct{}] }

// next returns a channel that the next wake closes.
func (s *signal) next() <-chan struct{} {
	fresh := make(chan struct{})
	for {
		if waiting := s.waiting.Load(); waiting != nil {
			return *waiting
		}
		if s.waiting.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

// wake costs one atomic load while nobody waits.
func (s *signal) wake() {
	if s.waiting.Load() == nil {
		return
	}
	if waiting := s.waiting.Swap(nil); waiting != nil {
		close(*waiting)
	}
}
