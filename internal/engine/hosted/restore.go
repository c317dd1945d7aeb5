package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/regret"
	"hindsight/internal/model/snapshot"
)

// Restorable rejects a sequence that the model cannot be restored to.
func (m *Model) Restorable(ctx context.Context, sequence uint64) error {
	if err := m.snapshots.lock(ctx); err != nil {
		return err
	}
	defer m.snapshots.unlock()
	return m.journal.reachable(ctx, sequence)
}

// RestoredTo is the entry of the model after a restore to a sequence. The restore begins an epoch unless
// it undoes nothing, or completes another restore that did not end. It runs at the model's turn.
func (m *Model) RestoredTo(sequence, last uint64) *record.RegistryValue {
	next := *m.registered.Load()
	if sequence == last && !m.journal.restoring {
		return &next
	}
	if !m.journal.restoring {
		next.Restored.Epoch++
	}
	next.Restored.Sequence = sequence
	return &next
}

// Pause keeps followers from learning of the model until resume. A Rewind that has not ended keeps them
// longer. Both run at the model's turn.
func (m *Model) Pause() (resume func()) {
	m.journal.paused.Store(true)
	return func() { m.journal.paused.Store(m.journal.restoring) }
}

// CompleteRestore completes a restore that a crash interrupted, before the model is hosted.
func (m *Model) CompleteRestore(ctx context.Context, sequence uint64) error {
	m.setRestoring(true)
	if err := m.Restore(ctx, sequence, m.registered.Load()); err != nil {
		err = fmt.Errorf("complete a restore: %w", err)
		m.Break(err)
		return err
	}
	m.setRestoring(false)
	return nil
}

// Restore restores the state at a sequence, and lets the store forget what came after it. The registry
// value of the model becomes next with the Rewind, or not at all. Called with the sequence of a Rewind that did not
// end, Restore completes that Rewind. It runs at the model's turn.
func (m *Model) Restore(ctx context.Context, sequence uint64, next *record.RegistryValue) error {
	copies := int64(copiesOf) // The snapshot, and its state beside the present one.
	if m.journal.replicated {
		copies += 2 * copiesOf // The rewind has the state too, which is checked.
	}
	copied, err := m.env.Memory.TakeCopies(ctx, copies*m.stateBytes())
	if err != nil {
		return err
	}
	defer copied()
	if err := m.snapshots.lock(ctx); err != nil {
		return err
	}
	defer m.snapshots.unlock()
	if err := m.journal.reachable(ctx, sequence); err != nil {
		return err
	}
	started := m.env.Now()
	r, rewind, err := m.source.Rewound(ctx, sequence, m.skipSnapshot)
	if err != nil {
		return m.id.errorf(fmt.Sprintf("restore sequence %d", sequence), err)
	}
	took := m.env.Now().Sub(started)
	if rewind.Value, err = EncodeRegistryValue(next, *m.source.Spec); err != nil {
		return err
	}
	if m.journal.replicated {
		if err := m.replicateRewind(ctx, &rewind, &r); err != nil {
			return err
		}
	}
	// Until here nothing has changed. From here on the restore goes on without its caller.
	if ctx.Err() != nil {
		return m.id.errorf(fmt.Sprintf("restore sequence %d", sequence), context.Cause(ctx))
	}
	if err := m.rewind(context.WithoutCancel(ctx), rewind, next); err != nil {
		return err
	}
	m.digests.mu.Lock()
	m.digests.cancel()
	m.digests.mu.Unlock()
	m.Publish(r, took)
	m.journal.followRewind()
	m.snapshots.epoch.Add(1) // A concurrent report may have read the state before the restore in the epoch of the rewind.
	m.owner.Restored(sequence)
	return nil
}

// rewind rewinds the store and registers next. After an error of unknown outcome the model is broken until the same
// Restore is called again.
func (m *Model) rewind(ctx context.Context, r storage.Rewind, next *record.RegistryValue) error {
	m.owner.Restoring()
	m.snapshots.epoch.Add(1)
	m.journal.restoring = true
	// What is registered after a Rewind of unknown outcome must not take the epoch back.
	before := m.registered.Swap(next)
	err := m.journal.store.Rewind(ctx, r)
	if err != nil {
		err = m.id.storagef(fmt.Sprintf("rewind to sequence %d", r.Sequence), err)
		if m.journal.replicated && m.env.Store.Failed() == nil {
			// If a replicated log was rewound, Rewound follows.
			m.journal.restoring = false
			m.registered.Store(before)
			return err
		}
		// How much was rewound is not known. The same call completes it.
		m.forget()
		m.Break(err)
		return err
	}
	m.journal.restoring = false
	return nil
}

// replicateRewind adds the state and the ids of the last record to the rewind of a replicated log, because the log of
// another server may begin after the sequence.
func (m *Model) replicateRewind(ctx context.Context, r *storage.Rewind, to *recovery.Recovered) (err error) {
	if r.IDs, err = m.journal.lastIDs(ctx, r.Sequence); err != nil {
		return err
	}
	s, err := to.Machine.Snapshot(nil)
	if err == nil {
		s.Digest = snapshot.Digest(s.Learner)
		r.Snapshot, err = snapshot.Encode(s)
		to.Snapshot = r.Sequence
	}
	if err != nil {
		return m.id.errorf("encode the restored state", err)
	}
	// The snapshot may be all that another server has of the state.
	if why := m.source.Check(r.Sequence, r.Snapshot, s.Digest); why != nil {
		return fmt.Errorf("engine: restore model %q: %w: %v", m.ID(), ErrUnreadable, why) //nolint:errorlint // The state and the log are whole.
	}
	return nil
}

// RecentRows learns the newest rounds up to a sequence of an epoch again, as far as the log has them, and
// returns their rows. It holds the memory of the rows and of the machine until release, and snapshots wait
// for it. It fails with ErrSuperseded if the model was restored since.
func (m *Model) RecentRows(ctx context.Context, sequence, epoch uint64, rounds int) (rows *regret.Rows, release func(), err error) {
	release, err = m.env.Memory.TakeCopies(ctx, copiesOf*m.stateBytes()+regret.Bytes)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := m.snapshots.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer m.snapshots.unlock()
	if m.Gauges().Epoch != epoch {
		return nil, nil, m.id.errorf("report the recent regret", ErrSuperseded)
	}
	from := sequence - min(sequence, uint64(rounds))
	if err := m.journal.reachable(ctx, from); errors.Is(err, ErrSnapshotNotFound) {
		sequences, listed := m.snapshots.store.Snapshots()
		if listed != nil {
			return nil, nil, m.id.storagef("list the snapshots", listed)
		}
		from = slices.Min(append(sequences, sequence))
	} else if err != nil {
		return nil, nil, err
	}
	rows = new(regret.Rows)
	return rows, release, m.id.errorf("learn the log again", m.source.Relearn(ctx, from, sequence, m.skipSnapshot, rows))
}

// SequenceAt is how many observations the model had learned at a time. It reads the log.
func (m *Model) SequenceAt(ctx context.Context, at time.Time) (uint64, error) {
	sequence, err := m.source.SequenceAt(ctx, TimeOf(m.registered.Load().Created), at)
	if errors.Is(err, recovery.ErrBefore) {
		return 0, fmt.Errorf("model %q at %s: %w: %w", m.ID(), at.UTC().Format(time.RFC3339Nano), ErrSnapshotNotFound, err)
	}
	return sequence, m.id.errorf("find a time in the log", recovery.StorageError(err))
}

// Successor is the same model with another entry, not in memory. An interrupted restore remains
// interrupted.
func (m *Model) Successor(entry *record.RegistryValue, owner Owner) *Model {
	next := New(m.env, m.ID(), m.source, entry, owner)
	next.state.broken = m.Broken()
	next.setRestoring(m.journal.restoring)
	return next
}
