package hosted

import (
	"context"
	"errors"
	"fmt"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// Resume prepares a follower to learn at its turn. It returns the follower's sequence, and for how many
// more observations it has room.
func (m *Model) Resume() (sequence uint64, room int, err error) {
	if err := m.catchUp(); err != nil {
		return 0, 0, err
	}
	return m.state.machine.Sequence(), m.state.machine.Room(), nil
}

// Relearn learns observations of another model's log, at the model's turn after Resume. It returns how
// many were learned, and why the next one was rejected, which is a *RowError, or nil.
func (m *Model) Relearn(observations []record.Observation) (learned int, rejected, err error) {
	m.Touch(m.env.Now())
	c := commit{Model: m}
	c.record.Time = max(m.state.machine.Time(), m.env.Time().UnixNano())
	for n := range observations {
		if rejected = c.placeFromLeader(&observations[n]); rejected != nil {
			break
		}
	}
	learned = len(c.record.Observations)
	if learned > 0 {
		if c.encode() {
			m.env.append(&c.append)
		}
		if err := c.apply(); err != nil {
			return 0, nil, err
		}
		m.afterCommit()
	}
	return learned, rejected, nil
}

// placeFromLeader adds an observation of another model to the record, if this model may learn it.
func (c *commit) placeFromLeader(o *record.Observation) error {
	inputs, err := c.decode(o.Inputs)
	if err != nil {
		return err
	}
	in := machine.Input{Features: o.Features, Record: inputs}
	if err := c.state.machine.Check(in, o.Labels, o.Class, o.Weight); err != nil {
		return err
	}
	if err := c.admitClass(o.Class); err != nil {
		return err
	}
	c.record.Observations = append(c.record.Observations, *o)
	return nil
}

// ErrLogCut says that the log no longer has the next observation of a follower.
var ErrLogCut = errors.New("the log was cut")

// Logged returns the observations of the log after a sequence, up to another one, without their ids
// and without what was served.
func (m *Model) Logged(ctx context.Context, after, through uint64) (out []record.Observation, err error) {
	j := &m.journal
	first, err := j.store.First()
	if err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return nil, j.id.storagef("find the beginning of the log", err)
	}
	if err != nil || first > after+1 {
		return nil, fmt.Errorf("%w: the log of model %q begins behind sequence %d, which is the next", ErrLogCut, m.ID(), after+1)
	}
	err = j.store.Replay(ctx, after, func(r storage.Record) error {
		if r.First > through {
			return storage.ErrReached
		}
		decoded, err := record.Decode(r.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		for n := range decoded.Observations {
			if at := r.First + uint64(n); at > after && at <= through {
				o := &decoded.Observations[n]
				o.ID, o.Served = "", nil
				out = append(out, *o)
			}
		}
		if r.Last >= through {
			return storage.ErrReached
		}
		return nil
	})
	if err != nil {
		return nil, j.id.storagef("read the log for a follower", err)
	}
	if uint64(len(out)) != through-after {
		err := fmt.Errorf("%d observations behind sequence %d, want %d: %w", len(out), after, through-after, ErrCorrupt)
		return nil, j.id.errorf("read the log for a follower", err)
	}
	return out, nil
}
