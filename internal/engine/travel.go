package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/model/codec"
	"hindsight/internal/store"
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

// SnapshotModel writes a snapshot now, unless the newest has everything, and
// tells which is the newest then.
func (e *Engine) SnapshotModel(ctx context.Context, id string) (Snapshot, error) {
	i, err := e.find(id)
	if err != nil {
		return Snapshot{}, err
	}
	select {
	case e.snapshots.slots <- struct{}{}:
		defer func() { <-e.snapshots.slots }()
	case <-ctx.Done():
		return Snapshot{}, fmt.Errorf("engine: wait for other snapshots: %w", context.Cause(ctx))
	}
	s, err := i.captureAlone(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer i.snapshotEnded()
	if kept, err := i.describe(s.Sequence); err == nil && i.snapshotAt.Load() == s.Sequence {
		return kept, nil
	}
	if err := i.store(s); err != nil {
		return Snapshot{}, fmt.Errorf("engine: snapshot of model %q: %w: %w", id, ErrStorage, err)
	}
	return i.describe(s.Sequence)
}

// captureAlone copies the state between two commits. A snapshot counts as on
// its way then, until snapshotEnded.
func (i *instance) captureAlone(ctx context.Context) (s codec.Snapshot, err error) {
	err = i.alone(ctx, func() error {
		if s, err = i.capture(); err != nil {
			return err
		}
		i.snapshotTime.Store(i.engine.o.Now().UnixNano())
		i.gate.Lock()
		defer i.gate.Unlock()
		i.gate.snapshots++
		return nil
	})
	return s, err
}

// describe tells of a snapshot from its first bytes.
func (i *instance) describe(sequence uint64) (Snapshot, error) {
	f, err := i.engine.o.Store.StatSnapshot(i.number, sequence, codec.HeadBytes)
	if err != nil {
		return Snapshot{}, fmt.Errorf("engine: snapshot %d of model %q: %w: %w", sequence, i.id, ErrStorage, err)
	}
	_, digest, err := codec.DecodeHead(f.Head)
	if err != nil {
		return Snapshot{}, fmt.Errorf("engine: snapshot %d of model %q: %w: %w", sequence, i.id, ErrCorrupt, err)
	}
	return Snapshot{Sequence: sequence, Created: f.Modified, Bytes: f.Bytes, Digest: digest}, nil
}

// ListSnapshots lists what is kept of a model, the newest first. What does not
// begin like a snapshot is left out.
func (e *Engine) ListSnapshots(id string) ([]Snapshot, error) {
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	sequences, err := e.o.Store.Snapshots(i.number)
	if err != nil {
		return nil, fmt.Errorf("engine: snapshots of model %q: %w: %w", id, ErrStorage, err)
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

// RestoreModel takes a model back to a sequence: to a snapshot, or to anything
// that the log still reaches from one. What it had learned after that is
// undone for good: its log is dropped and its ids are forgotten, so that it
// can be learned again. A model that cannot be recovered is, if an earlier
// state can be.
func (e *Engine) RestoreModel(ctx context.Context, id string, sequence uint64) (Info, error) {
	i, err := e.find(id)
	if err != nil {
		return Info{}, err
	}
	if err := i.enter(ctx); err != nil {
		return Info{}, err
	}
	defer i.leave()
	release := i.holdLoads()
	s, err := i.goBack(ctx, sequence)
	release(s)
	if err != nil {
		return Info{}, err
	}
	i.measure()
	e.o.Log.Info("model restored", zap.String("model", id), zap.Uint64("sequence", sequence))
	return i.info()
}

// goBack is the state at a sequence, once the store has forgotten what came
// after it.
func (i *instance) goBack(ctx context.Context, sequence uint64) (*state, error) {
	if err := i.restorable(sequence); err != nil {
		return nil, err
	}
	s, snapshot, err := i.stateAt(ctx, sequence)
	if err != nil {
		return nil, fmt.Errorf("engine: state of model %q at sequence %d: %w", i.id, sequence, err)
	}
	if s.sequence != sequence {
		return nil, fmt.Errorf("engine: model %q: the log ends at sequence %d: %w", i.id, s.sequence, ErrCorrupt)
	}
	if err := i.rewind(sequence); err != nil {
		return nil, fmt.Errorf("engine: rewind model %q to sequence %d: %w: %w", i.id, sequence, ErrStorage, err)
	}
	i.snapshotAt.Store(snapshot)
	i.derived = sequence
	return &s, nil
}

// restorable refuses a sequence that is not there any more, or not yet.
func (i *instance) restorable(sequence uint64) error {
	last, err := i.engine.o.Store.LastSequence(i.number)
	if err != nil {
		return fmt.Errorf("engine: find the end of the log of model %q: %w: %w", i.id, ErrStorage, err)
	}
	if sequence > last {
		return fmt.Errorf("model %q at sequence %d: %w: it has learned %d observations", i.id, sequence, ErrSnapshotNotFound, last)
	}
	kept, err := i.engine.o.Store.Snapshots(i.number)
	if err != nil {
		return fmt.Errorf("engine: snapshots of model %q: %w: %w", i.id, ErrStorage, err)
	}
	if len(kept) == 0 || kept[len(kept)-1] <= sequence {
		return nil
	}
	oldest := kept[len(kept)-1]
	first, err := i.engine.o.Store.FirstSequence(i.number)
	if err != nil && !errors.As(err, new(*store.CorruptError)) {
		return fmt.Errorf("engine: find the beginning of the log of model %q: %w: %w", i.id, ErrStorage, err)
	}
	if err == nil && first == 1 {
		return nil
	}
	return fmt.Errorf("model %q at sequence %d: %w: the oldest is the snapshot of sequence %d", i.id, sequence, ErrSnapshotNotFound, oldest)
}

// rewind makes the store forget what came after a sequence. Until the log is
// cut, at the end, a crash leaves the model as it was: a snapshot that is gone
// costs time, and ids are derived again from the log.
func (i *instance) rewind(sequence uint64) error {
	disk := i.engine.o.Store
	kept, err := disk.Snapshots(i.number)
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	for _, later := range kept {
		if later > sequence {
			if err := disk.RemoveSnapshot(i.number, later); err != nil {
				return err //nolint:wrapcheck // The caller does.
			}
		}
	}
	last, err := i.cutRecord(sequence)
	if err != nil {
		return err
	}
	err = disk.ForgetWhere(i.number, func(value []byte) (bool, error) {
		s, err := decodeSeen(value, i.spec.Outputs)
		return err == nil && s.Answer.Sequence > sequence, err
	})
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	return disk.RewindLog(i.number, sequence, last) //nolint:wrapcheck // The caller does.
}

// cutRecord is the record that a sequence is inside of, cut to end with it; nil
// when one ends there.
func (i *instance) cutRecord(sequence uint64) (cut *store.Record, err error) {
	err = i.engine.o.Store.Replay(i.number, sequence, func(logged store.Record) error {
		if logged.First > sequence {
			return errReached
		}
		r, err := decodeRecord(logged.Data)
		if err != nil {
			return err
		}
		r.Observations = r.Observations[:sequence-logged.First+1]
		cut = &store.Record{First: logged.First, Last: sequence, Data: appendRecord(nil, r)}
		return errReached
	})
	var corrupt *store.CorruptError
	if errors.Is(err, errReached) || errors.As(err, &corrupt) {
		return cut, nil // Beyond the sequence a record may be anything.
	}
	return cut, err //nolint:wrapcheck // The caller does.
}
