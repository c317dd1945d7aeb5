package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"go.uber.org/zap"

	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

// decodeInstance makes the model of a registry entry, before it has learned
// anything.
func (e *Engine) decodeInstance(name string, number store.Model, entry []byte) (*instance, error) {
	created, encoded, err := decodeEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w: %w", name, ErrCorrupt, err)
	}
	spec, err := codec.DecodeSpec(encoded)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	// A default that is younger than the entry is filled in.
	if spec, _, err = catalog.Complete(spec); err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	learner, err := catalog.New(spec)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	return newInstance(e, name, number, spec, unixTime(created), learner), nil
}

// recover brings the model to the end of its log: the newest good snapshot,
// then every record after it, learned as it was the first time.
func (i *instance) recover(ctx context.Context) error {
	if err := i.restoreNewest(); err != nil {
		return err
	}
	snapshot := i.mu.sequence
	i.snapshotAt.Store(snapshot)
	last, err := i.engine.o.Store.LastSequence(i.number)
	if err != nil {
		return fmt.Errorf("find the end of the log: %w", err)
	}
	if last < snapshot {
		return fmt.Errorf("the log ends at sequence %d, behind the snapshot at %d: acknowledged observations may be missing: %w",
			last, snapshot, ErrCorrupt)
	}
	err = i.engine.o.Store.Replay(i.number, snapshot, func(r store.Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("recovery interrupted: %w", context.Cause(ctx))
		}
		return i.replay(r)
	})
	if err != nil {
		return fmt.Errorf("replay the log after sequence %d: %w", snapshot, err)
	}
	if i.mu.sequence != last {
		return fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, i.mu.sequence, ErrCorrupt)
	}
	waiting, err := i.engine.o.Store.CountPending(i.number)
	if err != nil {
		return fmt.Errorf("count waiting predictions: %w", err)
	}
	i.pending.Store(int64(waiting))
	return nil
}

// restoreNewest restores the newest snapshot that is good. A bad one costs
// time, not data: the log reaches back to the oldest.
func (i *instance) restoreNewest() error {
	sequences, err := i.engine.o.Store.Snapshots(i.number)
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, sequence := range sequences {
		err := i.restore(sequence)
		if err == nil {
			return nil
		}
		if errors.Is(err, codec.ErrNewer) {
			return err
		}
		i.engine.o.Log.Error("bad snapshot passed over",
			zap.String("model", i.id), zap.Uint64("sequence", sequence), zap.Error(err))
	}
	return nil
}

func (i *instance) restore(sequence uint64) error {
	data, err := i.engine.o.Store.ReadSnapshot(i.number, sequence)
	if err != nil {
		return fmt.Errorf("read snapshot %d: %w", sequence, err)
	}
	s, err := codec.Decode(data)
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	spec, _, err := catalog.Complete(s.Spec)
	if err != nil {
		return fmt.Errorf("snapshot %d: %w: %w", sequence, ErrCorrupt, err)
	}
	if s.Sequence != sequence || !reflect.DeepEqual(spec, i.spec) {
		return fmt.Errorf("snapshot %d is of sequence %d and spec %+v: %w", sequence, s.Sequence, spec, ErrCorrupt)
	}
	account, err := decodeAccount(s.Account)
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	if err := i.mu.learner.Restore(s.Learner); err != nil {
		return fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	i.mu.sequence, i.mu.account = sequence, account
	return nil
}

// replay learns one logged record again and derives what is derived from it.
func (i *instance) replay(logged store.Record) error {
	r, err := decodeRecord(logged.Data)
	if err != nil {
		return fmt.Errorf("record of sequences %d to %d: %w: %w", logged.First, logged.Last, ErrCorrupt, err)
	}
	if n := logged.Last - logged.First + 1; n != uint64(len(r.Observations)) {
		return fmt.Errorf("record of sequences %d to %d holds %d observations: %w",
			logged.First, logged.Last, len(r.Observations), ErrCorrupt)
	}
	if logged.First != i.mu.sequence+1 {
		// The snapshot was taken inside this record: the writer never does.
		return fmt.Errorf("record of sequences %d to %d follows sequence %d: %w",
			logged.First, logged.Last, i.mu.sequence, ErrCorrupt)
	}
	answers, err := i.learn(r)
	if err != nil {
		return err
	}
	if err := i.rememberSeen(r, answers); err != nil {
		return err
	}
	var consumed []string
	for _, o := range r.Observations {
		if o.Served != nil {
			consumed = append(consumed, o.ID)
		}
	}
	if len(consumed) == 0 {
		return nil
	}
	if err := i.engine.o.Store.RemovePending(i.number, consumed); err != nil {
		return fmt.Errorf("forget answered predictions: %w: %w", ErrStorage, err)
	}
	return nil
}
