package engine

import (
	"context"
	"fmt"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
)

// follow lets a follower learn the next observations of the model that it follows, at
// most maxCommitRows, at its own turn. It tells whether there are more. It never waits
// for the turn of the other model, which may wait for this one.
//
// Each observation is learned once: the follower's sequence says how far it is, and its
// log takes a record right behind its end alone.
func (i *instance) follow(ctx context.Context, leader *instance) (more bool, err error) {
	f := i.follows()
	if f == nil || leader.paused.Load() {
		return false, nil
	}
	// A restore waits for this turn, so that neither changes during it.
	if f.Epoch != leader.entry.Load().Restored.Epoch {
		return false, errRestored
	}
	if err := leader.isBroken(); err != nil {
		return false, err // Its instance was replaced, and does not know of a restore since.
	}
	if err := i.load(); err != nil {
		return false, err
	}
	if i.mu.broken != nil {
		return false, i.mu.broken
	}
	at := f.From + i.mu.machine.Sequence()
	if i.aim == nil || i.aim.sequence <= at {
		aim, err := leader.sums()
		if err != nil {
			return false, err
		}
		i.aim = &aim
	}
	if at < i.aim.sequence {
		if at, err = i.learnFrom(ctx, leader, at); err != nil {
			return false, err
		}
	}
	if at != i.aim.sequence {
		return at < i.aim.sequence, nil
	}
	if err := i.compare(f); err != nil {
		return false, err
	}
	left, err := i.behind(f, leader)
	return left > 0, err
}

// compare notes the figures of both at a sequence that both have reached.
func (i *instance) compare(f *record.Follow) error {
	own, err := i.sums()
	if err != nil || !i.aim.known {
		return err
	}
	from, err := decodeSums(f.Sums)
	if err != nil {
		return i.errorf("read the figures that a comparison begins with", fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	leader := *i.aim
	leader.whole.Sub(from.whole)
	leader.classes.Sub(from.classes)
	i.compared.Store(&compared{through: i.aim.sequence, own: own, leader: leader})
	return nil
}

// learnFrom learns what is behind a sequence of the model that is followed, and tells
// how far it came.
func (i *instance) learnFrom(ctx context.Context, leader *instance, at uint64) (uint64, error) {
	i.used.Store(i.o.Now().UnixNano())
	n := min(i.aim.sequence-at, maxCommitRows, uint64(i.mu.machine.Room()))
	if n == 0 {
		return at, fmt.Errorf("%w: %w", errStops, model.ErrObservationLimit)
	}
	observations, err := leader.logged(ctx, at, at+n)
	if err != nil {
		return at, err
	}
	c, ok := i.commits.Get().(*commit)
	if !ok {
		c = &commit{places: map[string]int{}}
	}
	c.instance = i
	c.record.Time = max(i.mu.machine.Time(), i.o.Now().UnixNano())
	var refused error
	for n := range observations {
		if refused = c.takeOver(&observations[n]); refused != nil {
			refused = fmt.Errorf("%w: it cannot learn sequence %d of model %q: %w", errStops, at+uint64(n)+1, leader.id, refused)
			break
		}
	}
	learned := len(c.record.Observations)
	if learned > 0 {
		err = c.apply()
	}
	c.reset()
	i.commits.Put(c)
	if err != nil {
		return at, err
	}
	i.afterCommit()
	return at + uint64(learned), refused
}

// takeOver adds an observation that another model has learned, if this one may learn it.
func (c *commit) takeOver(o *record.Observation) error {
	r := row{inputs: o.Inputs}
	if err := c.decode(&r); err != nil {
		return err
	}
	if err := c.mu.machine.Check(machine.Input{Features: o.Features, Record: r.Inputs}, o.Labels, o.Class, o.Weight); err != nil {
		return err
	}
	if err := c.admitClass(o.Class); err != nil {
		return err
	}
	c.record.Observations = append(c.record.Observations, *o)
	return nil
}
