package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"go.uber.org/zap"

	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

// decodeInstance makes the model of a registry entry, not yet in memory.
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
	return newInstance(e, name, number, spec, unixTime(created)), nil
}

// fresh is the state of a model that has learned nothing.
func (i *instance) fresh() (state, error) {
	learner, err := catalog.New(i.spec)
	if err != nil {
		return state{}, fmt.Errorf("make the learner: %w: %w", err, ErrCorrupt)
	}
	return state{learner: learner}, nil
}

// everything is the end of a log, wherever it is.
const everything = math.MaxUint64

// recover brings a state to the end of the model's log.
func (i *instance) recover(ctx context.Context) (state, error) {
	last, err := i.engine.o.Store.LastSequence(i.number)
	if err != nil {
		return state{}, fmt.Errorf("find the end of the log: %w: %w", ErrStorage, err)
	}
	s, snapshot, err := i.stateAt(ctx, everything)
	if err != nil {
		return state{}, err
	}
	if last < snapshot {
		return state{}, fmt.Errorf("the log ends at sequence %d, behind the snapshot at %d: acknowledged observations may be missing: %w",
			last, snapshot, ErrCorrupt)
	}
	if s.sequence != last {
		return state{}, fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, s.sequence, ErrCorrupt)
	}
	i.snapshotAt.Store(snapshot)
	i.derived = max(i.derived, last)
	return s, nil
}

// stateAt is the state at a sequence, or at the end of the log: the newest
// good snapshot that is not later, and then every record up to it, learned as
// it was the first time. It also tells where the snapshot is.
func (i *instance) stateAt(ctx context.Context, sequence uint64) (s state, snapshot uint64, err error) {
	if s, err = i.restoreNewest(sequence); err != nil {
		return state{}, 0, err
	}
	snapshot = s.sequence
	err = i.engine.o.Store.Replay(i.number, snapshot, func(r store.Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("recovery interrupted: %w", context.Cause(ctx))
		}
		return i.replay(&s, r, sequence)
	})
	var corrupt *store.CorruptError
	switch {
	case errors.Is(err, errReached):
	case errors.As(err, &corrupt):
		return state{}, 0, fmt.Errorf("replay the log after sequence %d: %w: %w", snapshot, ErrCorrupt, err)
	case err != nil:
		return state{}, 0, fmt.Errorf("replay the log after sequence %d: %w", snapshot, err)
	}
	return s, snapshot, nil
}

// restoreNewest restores the newest snapshot up to a sequence that is good. A
// bad one costs time, not data: the log reaches back to the oldest.
func (i *instance) restoreNewest(through uint64) (state, error) {
	sequences, err := i.engine.o.Store.Snapshots(i.number)
	if err != nil {
		return state{}, fmt.Errorf("list snapshots: %w: %w", ErrStorage, err)
	}
	for _, sequence := range sequences {
		if sequence > through {
			continue
		}
		s, err := i.restore(sequence)
		if err == nil {
			return s, nil
		}
		if errors.Is(err, codec.ErrNewer) {
			return state{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		i.engine.badSnapshots.Add(1)
		i.engine.o.Log.Error("bad snapshot passed over",
			zap.String("model", i.id), zap.Uint64("sequence", sequence), zap.Error(err))
	}
	return i.fresh()
}

func (i *instance) restore(sequence uint64) (state, error) {
	data, err := i.engine.o.Store.ReadSnapshot(i.number, sequence)
	if err != nil {
		return state{}, fmt.Errorf("read snapshot %d: %w", sequence, err)
	}
	s, err := codec.Decode(data)
	if err != nil {
		return state{}, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	spec, _, err := catalog.Complete(s.Spec)
	if err != nil {
		return state{}, fmt.Errorf("snapshot %d: %w: %w", sequence, ErrCorrupt, err)
	}
	if s.Sequence != sequence || !reflect.DeepEqual(spec, i.spec) {
		return state{}, fmt.Errorf("snapshot %d is of sequence %d and spec %+v: %w", sequence, s.Sequence, spec, ErrCorrupt)
	}
	return i.decodeState(s)
}

// decodeState is the state that a snapshot of the model's spec holds.
func (i *instance) decodeState(s codec.Snapshot) (state, error) {
	account, err := decodeAccount(s.Account)
	if err != nil {
		return state{}, fmt.Errorf("snapshot %d: %w", s.Sequence, err)
	}
	out, err := i.fresh()
	if err != nil {
		return state{}, err
	}
	if err := out.learner.Restore(s.Learner); err != nil {
		return state{}, fmt.Errorf("snapshot %d: %w", s.Sequence, err)
	}
	out.sequence, out.account = s.Sequence, account
	return out, nil
}

// errReached ends a replay that is where it was to go.
var errReached = errors.New("reached")

// free is the lock of what nobody else can see.
type free struct{}

func (free) Lock()   {}
func (free) Unlock() {}

// replay learns one logged record again, as far as a sequence, and derives
// what is derived from it unless that was done in this process.
func (i *instance) replay(s *state, logged store.Record, through uint64) error {
	r, err := decodeRecord(logged.Data)
	if err != nil {
		return fmt.Errorf("record of sequences %d to %d: %w: %w", logged.First, logged.Last, ErrCorrupt, err)
	}
	if n := logged.Last - logged.First + 1; n != uint64(len(r.Observations)) {
		return fmt.Errorf("record of sequences %d to %d holds %d observations: %w",
			logged.First, logged.Last, len(r.Observations), ErrCorrupt)
	}
	if logged.First != s.sequence+1 {
		// A snapshot is never taken inside a record.
		return fmt.Errorf("record of sequences %d to %d follows sequence %d: %w",
			logged.First, logged.Last, s.sequence, ErrCorrupt)
	}
	if logged.First > through {
		return errReached
	}
	r.Observations = r.Observations[:min(logged.Last, through)-logged.First+1]
	answers, err := i.learn(s, free{}, r)
	if err != nil {
		return err
	}
	if logged.Last > i.derived {
		if err := i.derive(r, answers); err != nil {
			return err
		}
	}
	if logged.Last > through {
		return errReached
	}
	return nil
}

// derive writes what follows from a record, if it is not there: a crash may
// have lost it.
func (i *instance) derive(r record, answers []Answer) error {
	if there, err := i.remembers(r, answers); err != nil {
		return err
	} else if !there {
		if err := i.rememberSeen(r, answers, i.engine.o.Store.PutSeen); err != nil {
			return err
		}
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
	removed, err := i.engine.o.Store.RemovePending(i.number, consumed)
	if err != nil {
		return fmt.Errorf("forget answered predictions: %w: %w", ErrStorage, err)
	}
	i.addPending(-int64(removed))
	return nil
}

// remembers tells whether the ids of a record are in the store: all are if one
// is, since they were written together, and a crash leaves a prefix of what
// was written. To look for one is a tenth of the work of writing them again.
func (i *instance) remembers(r record, answers []Answer) (bool, error) {
	for n, o := range r.Observations {
		if o.ID == "" {
			continue
		}
		value, ok, err := i.engine.o.Store.GetSeen(i.number, o.ID)
		if err != nil {
			return false, fmt.Errorf("look up id %q: %w: %w", o.ID, ErrStorage, err)
		}
		if !ok {
			return false, nil
		}
		s, err := decodeSeen(value, i.spec.Outputs)
		if err != nil {
			return false, fmt.Errorf("id %q: %w: %w", o.ID, ErrCorrupt, err)
		}
		return s.Answer.Sequence == answers[n].Sequence, nil
	}
	return true, nil
}
