package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/mailbox"
	"hindsight/internal/model"
)

// Observe is Submit and Wait.
func (e *Engine) Observe(ctx context.Context, id string, observations []Observation) ([]Answer, error) {
	t, err := e.Submit(ctx, id, observations)
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// Submit checks observations and queues them for the model's turn: they are
// learned in the order of the calls, all or none of one call. It waits only for
// a model that is not in memory: a full queue is ErrOverloaded.
func (e *Engine) Submit(ctx context.Context, id string, observations []Observation) (*Ticket, error) {
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	t := newTicket(len(observations), e.o.Now())
	i.used.Store(t.started.UnixNano())
	for n := range observations {
		if err := i.lookFor(&t.rows[n], observations[n], t.started); err != nil {
			return nil, &RowError{Row: n, Err: err}
		}
	}
	if err := i.check(ctx, t.rows); err != nil {
		return nil, err
	}
	err = i.box.Put(t, len(t.rows))
	if errors.Is(err, mailbox.ErrFull) {
		return nil, fmt.Errorf("model %q: %w: %w", id, ErrOverloaded, err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// lookFor looks up what is known of an observation's id before its turn: it is
// the dear part of an observation, and callers share the work of it.
func (i *instance) lookFor(r *row, o Observation, now time.Time) (err error) {
	r.Observation = o
	if r.id, err = o.identity(); err != nil || r.id == "" {
		return err
	}
	r.looked = i.recent.generation.Load()
	if r.seen, err = i.lookUp(r.id); err != nil {
		return err
	}
	if r.waiting, err = i.waitingFor(r.id, now); err != nil {
		return err
	}
	if o.PredictionID != "" && r.waiting != nil {
		r.Features = r.waiting.Features
	}
	return nil
}

// check refuses what the learner would not learn. What it accepts, the learner
// learns.
func (i *instance) check(ctx context.Context, rows []row) error {
	if err := i.lockLoaded(ctx); err != nil {
		return err
	}
	defer i.mu.RUnlock()
	for n := range rows {
		r := &rows[n]
		var err error
		if r.PredictionID != "" && r.waiting == nil {
			// Unknown, expired, or already observed: its turn will tell.
			err = i.checkLabel(&r.Observation)
		} else {
			err = i.mu.machine.Check(r.Features, r.Labels, r.Weight)
		}
		if err != nil {
			return &RowError{Row: n, Err: err}
		}
	}
	return nil
}

func (i *instance) checkLabel(o *Observation) error {
	if err := model.CheckLabels(o.Labels, i.Spec.Outputs); err != nil {
		return err
	}
	return model.CheckWeight(o.Weight)
}
