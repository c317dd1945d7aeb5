package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
)

// Snapshot is a kept state of a model.
type Snapshot struct {
	// Sequence is how many observations it had learned.
	Sequence uint64
	// Created is when it was written, Bytes its size, Digest that of the
	// learner's state.
	Created time.Time
	Bytes   int64
	Digest  [32]byte
}

// SnapshotModel writes a snapshot now, unless the newest has all that was
// learned, and tells which is the newest then. Only the copy of the state takes
// the model's turn.
func (e *Engine) SnapshotModel(ctx context.Context, id string) (Snapshot, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	for {
		s, err := i.snapshotNow(ctx)
		if !errors.Is(err, errSuperseded) && !errors.Is(err, errLeft) {
			return s, err
		}
		// It was restored meanwhile: what was captured is no state of its. Or it has left
		// memory.
	}
}

func (i *instance) snapshotNow(ctx context.Context) (Snapshot, error) {
	if err := i.takeCopy(ctx); err != nil {
		return Snapshot{}, err
	}
	defer func() { <-i.copies }()
	c, err := i.captureAtTurn(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer c.done()
	if !i.keeps(c.Sequence) {
		if err := c.write(ctx); err != nil {
			return Snapshot{}, err
		}
		return i.describe(c.Sequence)
	}
	// Who wrote it may not be done with what it makes unnecessary.
	if err := i.takeDisk(ctx); err != nil {
		return Snapshot{}, err
	}
	defer func() { <-i.disk }()
	return i.describe(c.Sequence)
}

// keeps tells whether the snapshot of a sequence is the newest and is there.
func (i *instance) keeps(sequence uint64) bool {
	if i.snapshotAt.Load() != sequence {
		return false
	}
	_, err := i.describe(sequence)
	return err == nil
}

// captureAtTurn copies the state of a model in memory, at the model's turn.
func (i *instance) captureAtTurn(ctx context.Context) (capture, error) {
	return i.captureBy(ctx, func(ctx context.Context) (capture, error) { return i.captureNow(ctx) })
}

// captureBy runs what captures the model at its turn. What is captured after the caller has
// left is given up.
func (i *instance) captureBy(ctx context.Context, work func(context.Context) (capture, error)) (c capture, err error) {
	var decided atomic.Bool // Either it is captured or the caller has left.
	taken := make(chan capture, 1)
	err = i.box.Do(ctx, func(ctx context.Context) error {
		c, err := work(ctx)
		if err != nil {
			return err
		}
		if !decided.CompareAndSwap(false, true) {
			c.done()
			return nil
		}
		taken <- c
		return nil
	})
	if err == nil {
		return <-taken, nil
	}
	if !decided.CompareAndSwap(false, true) {
		(<-taken).done()
	}
	return capture{}, err
}

// describe tells of a snapshot from its first bytes.
func (i *instance) describe(sequence uint64) (Snapshot, error) {
	doing := fmt.Sprintf("read snapshot %d", sequence)
	f, err := i.Kept.StatSnapshot(sequence, codec.HeadBytes)
	if err != nil {
		return Snapshot{}, i.errorf(doing, recovery.StorageError(err))
	}
	_, digest, err := codec.DecodeHead(f.Head)
	if err != nil {
		return Snapshot{}, i.errorf(doing, fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return Snapshot{Sequence: sequence, Created: f.Created, Bytes: f.Bytes, Digest: digest}, nil
}

// ListSnapshots lists what is kept of a model, the newest first. What does not
// begin like a snapshot is left out.
func (e *Engine) ListSnapshots(ctx context.Context, id string) ([]Snapshot, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	sequences, err := i.Kept.Snapshots()
	if err != nil {
		return nil, i.errorf("list the snapshots", recovery.StorageError(err))
	}
	out := make([]Snapshot, 0, len(sequences))
	for _, sequence := range sequences {
		s, err := i.describe(sequence)
		if err != nil {
			e.o.Log.Warn("snapshot left out of the list", zap.String("model", id), zap.Uint64("sequence", sequence), zap.Error(err))
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// RestoreModel takes a model back to a sequence: to a snapshot, or to any state
// that the log still reaches from one. What it had learned after that is undone:
// its log is dropped and its ids are forgotten, so that it can be learned again. A model that cannot be recovered is, if an earlier state can
// be.
//
// It tells how many observations were undone. With validateOnly it tells how many would
// be, and restores nothing.
func (e *Engine) RestoreModel(ctx context.Context, id string, sequence uint64, validateOnly bool) (info Info, undone uint64, err error) {
	i, err := e.findID(id)
	if err != nil {
		return Info{}, 0, err
	}
	release, err := e.claimLed(ctx, i)
	if err != nil {
		return Info{}, 0, err
	}
	if err := i.here(); err != nil {
		release()
		return Info{}, 0, err
	}
	last := make(chan uint64, 1)
	// The names stay claimed until the work has ended, also if the caller has left before.
	err = i.atTurn(ctx, release, func(ctx context.Context) error {
		end, err := i.Kept.Last()
		if err != nil {
			return i.errorf("find the end of the log", recovery.StorageError(err))
		}
		last <- end
		if err := i.takeDisk(ctx); err != nil {
			return err
		}
		err = i.restorable(ctx, sequence)
		<-i.disk
		if err != nil || validateOnly {
			return err
		}
		goOn, err := e.pauseFollowers(ctx, i)
		if err != nil {
			return err
		}
		defer goOn()
		return i.goBack(ctx, sequence, i.restoredTo(sequence, end))
	})
	if err != nil {
		return Info{}, 0, err
	}
	if !validateOnly {
		e.settleFollowers(ctx, i)
		e.o.Log.Info("model restored", zap.String("model", i.id), zap.Uint64("sequence", sequence))
	}
	info, err = i.info()
	return info, <-last - sequence, err
}

// restoredTo is the entry of the model after a restore to a sequence. The restore begins
// an epoch unless it undoes nothing, or completes another one that did not end.
func (i *instance) restoredTo(sequence, last uint64) *record.Entry {
	next := *i.entry.Load()
	if sequence == last && !i.rewinding {
		return &next
	}
	if !i.rewinding {
		next.Restored.Epoch++
	}
	next.Restored.Sequence = sequence
	return &next
}

// goBack restores the state at a sequence and lets the store forget what came
// after it. It runs at the model's turn. Called with the sequence of a Rewind
// that a crash interrupted, it completes that. The entry of the model becomes next with
// the Rewind, or not at all.
func (i *instance) goBack(ctx context.Context, sequence uint64, next *record.Entry) error {
	// The snapshot that it is read from, and its state beside the present one.
	copied, err := i.takeBytes(ctx, copiesOf*i.stateBytes())
	if err != nil {
		return err
	}
	defer copied()
	if err := i.takeDisk(ctx); err != nil {
		return err
	}
	defer func() { <-i.disk }()
	if err := i.restorable(ctx, sequence); err != nil {
		return err
	}
	if err := i.removeAnswered(); err != nil {
		return err
	}
	started := i.o.Now()
	// What the log says of the ids before the sequence is written first: a
	// record that is cut is complete.
	d := recovery.Derivation{Kept: i.Kept}
	r, err := i.At(ctx, sequence, i.passOver, d.Tell)
	if err == nil {
		err = d.Write()
	}
	if err == nil && r.Sequence() != sequence {
		err = fmt.Errorf("the log ends at sequence %d: %w", r.Sequence(), ErrCorrupt)
	}
	if err != nil {
		return i.errorf(fmt.Sprintf("restore sequence %d", sequence), err)
	}
	took := i.o.Now().Sub(started)
	cut, err := i.Cut(ctx, sequence)
	if err != nil {
		return i.errorf(fmt.Sprintf("cut the log at sequence %d", sequence), recovery.StorageError(err))
	}
	value, err := encodeEntry(next, i.Spec)
	if err != nil {
		return err
	}
	// Until here nothing has changed. From here on a caller that leaves changes
	// nothing.
	if ctx.Err() != nil {
		return i.errorf(fmt.Sprintf("restore sequence %d", sequence), context.Cause(ctx))
	}
	i.outdate()
	i.rewinding = true
	// What is registered after a Rewind of unknown outcome must not take the epoch back.
	i.entry.Store(next)
	err = i.Kept.Rewind(context.WithoutCancel(ctx), storage.Rewind{Sequence: sequence, Last: cut, Value: value, Undone: func(value []byte) bool {
		s, err := record.DecodeSeen(value, i.Spec.Outputs)
		return err == nil && s.Answer.Sequence > sequence
	}})
	if err != nil {
		err = i.errorf(fmt.Sprintf("rewind to sequence %d", sequence), recovery.StorageError(err))
		// It is not known how far that came. The same call goes on from there.
		i.forget()
		i.takeBroken(err)
		return err
	}
	i.rewinding = false
	i.publish(r, took)
	i.aim = nil
	i.compared.Store(nil)
	i.watchers.each(func(q *queue) { q.goBack(sequence) })
	return nil
}

// restorable refuses a sequence that is not there any more, or not yet.
func (i *instance) restorable(ctx context.Context, sequence uint64) error {
	last, err := i.Kept.Last()
	if err != nil {
		return i.errorf("find the end of the log", recovery.StorageError(err))
	}
	if sequence > last {
		return fmt.Errorf("model %q at sequence %d: %w: it has learned %d observations", i.id, sequence, ErrSnapshotNotFound, last)
	}
	kept, err := i.Kept.Snapshots()
	if err != nil {
		return i.errorf("list the snapshots", recovery.StorageError(err))
	}
	if len(kept) == 0 || kept[len(kept)-1] <= sequence {
		return nil
	}
	first, err := i.Kept.First()
	switch {
	case err != nil && !errors.Is(err, storage.ErrCorrupt):
		return i.errorf("find the beginning of the log", recovery.StorageError(err))
	case err == nil && first == 1:
		imported, err := i.beginsImported(ctx)
		if err != nil || !imported {
			return err
		}
	}
	return fmt.Errorf("model %q at sequence %d: %w: the oldest is the snapshot of sequence %d",
		i.id, sequence, ErrSnapshotNotFound, kept[len(kept)-1])
}

// beginsImported tells whether the log begins with what an import began with, which cannot
// be learned again.
func (i *instance) beginsImported(ctx context.Context) (imported bool, err error) {
	err = i.Kept.Replay(ctx, 0, func(r storage.Record) error {
		imported = len(r.Data) == 0
		return recovery.ErrReached
	})
	if errors.Is(err, recovery.ErrReached) {
		err = nil
	}
	return imported, i.errorf("read the beginning of the log", recovery.StorageError(err))
}

// SequenceAt is the sequence that a model had at a time: how many observations it had
// learned by then. RestoreModel takes the model back to it. A time that the log does not
// reach back to is ErrSnapshotNotFound. The log is read for it.
func (e *Engine) SequenceAt(ctx context.Context, id string, at time.Time) (uint64, error) {
	i, err := e.findID(id)
	if err != nil {
		return 0, err
	}
	sequence, err := i.SequenceAt(ctx, entryTime(i.entry.Load().Created), at)
	if errors.Is(err, recovery.ErrBefore) {
		return 0, fmt.Errorf("model %q at %s: %w: %w", id, at.UTC().Format(time.RFC3339Nano), ErrSnapshotNotFound, err)
	}
	return sequence, i.errorf("find a time in the log", recovery.StorageError(err))
}
