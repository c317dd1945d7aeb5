package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/figures"
)

// SnapshotModel writes a snapshot now, unless the newest one has all that was learned, and describes the
// newest one then. Only the copy of the state takes the model's turn.
func (e *Engine) SnapshotModel(ctx context.Context, id string) (Snapshot, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	return m.WriteSnapshot(ctx)
}

// ListSnapshots lists the snapshots of a model, the newest first. It leaves out what does not begin like a
// snapshot.
func (e *Engine) ListSnapshots(ctx context.Context, id string) ([]Snapshot, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.ListSnapshots()
}

// SequenceAt is how many observations a model had learned at a time: RestoreModel restores it. A time that the
// log does not reach back to is ErrSnapshotNotFound. SequenceAt reads the log.
func (e *Engine) SequenceAt(ctx context.Context, id string, at time.Time) (uint64, error) {
	m, err := e.findID(id)
	if err != nil {
		return 0, err
	}
	return m.SequenceAt(ctx, at)
}

// RestoreModel restores the state of a model at a sequence: a snapshot's sequence, or any that the log still
// reaches from one. It undoes what the model had learned after that: its log is dropped and its ids are
// forgotten, so that it can be learned again. A model that cannot be recovered can be restored if an earlier
// state can.
//
// RestoreModel returns how many observations were undone. With validateOnly it returns how many would be, and
// restores nothing.
func (e *Engine) RestoreModel(ctx context.Context, id string, sequence uint64, validateOnly bool) (info Info, undone uint64, err error) {
	if !validateOnly {
		if err := e.asOwner(ctx); err != nil {
			return Info{}, 0, err
		}
	}
	m, err := e.findID(id)
	if err != nil {
		return Info{}, 0, err
	}
	release, err := e.claimLeader(ctx, m)
	if err != nil {
		return Info{}, 0, err
	}
	last := make(chan uint64, 1)
	err = m.turnClaimed(ctx, release, func(ctx context.Context) error {
		end, err := m.LogEnd()
		if err != nil {
			return err
		}
		last <- end
		if err := m.Restorable(ctx, sequence); err != nil || validateOnly {
			return err
		}
		resume := m.Pause()
		defer func() {
			resume()
			e.followers.Wake()
		}()
		// What followers learn at their turn now is still the log of before.
		if err := e.followers.AwaitTurns(ctx, m.Ref()); err != nil {
			return err
		}
		return m.Restore(ctx, sequence, m.RestoredTo(sequence, end))
	})
	if err != nil {
		return Info{}, 0, err
	}
	if !validateOnly {
		e.continueFollowers(ctx, m)
		e.o.Log.Info("model restored", zap.String("model", m.ID()), zap.Uint64("sequence", sequence))
	}
	info, err = figures.Describe(m.Model)
	return info, <-last - sequence, err
}
