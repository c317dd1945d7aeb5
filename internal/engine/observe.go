package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Observe is Submit and Wait.
func (e *Engine) Observe(ctx context.Context, id string, observations []Observation) ([]Answer, error) {
	t, err := e.Submit(ctx, id, observations)
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// Submit is SubmitTo by the id of a model. By an alias observations may go to two models:
// see Route.
func (e *Engine) Submit(ctx context.Context, id string, observations []Observation) (*Ticket, error) {
	i, err := e.findID(id)
	if err != nil {
		return nil, err
	}
	return e.SubmitTo(ctx, Target{instance: i}, observations)
}

// SubmitTo checks observations and queues them for the model's turn: they are
// learned in the order of the calls, all or none of one call. It waits only for
// a model that is not in memory: a full queue is ErrOverloaded.
func (e *Engine) SubmitTo(ctx context.Context, i Target, observations []Observation) (*Ticket, error) {
	if f := i.follows(); f != nil {
		return nil, fmt.Errorf("model %q: %w: observe %q", i.id, ErrFollows, f.Leader.ID)
	}
	if err := i.here(); err != nil {
		return nil, err
	}
	t := newTicket(len(observations), e.o.Now())
	if id := traceID(ctx); id != "" {
		t.stages = &stages{id: id}
	}
	i.used.Store(t.started.UnixNano())
	for n := range observations {
		t.rows[n].Observation = observations[n]
		if err := i.lookFor(&t.rows[n], t.started); err != nil {
			return nil, &RowError{Row: n, Err: err}
		}
	}
	if err := i.check(ctx, t.rows); err != nil {
		return nil, err
	}
	for n := range t.rows {
		t.rows[n].Inputs = nil // It is the caller's again.
	}
	err := i.box.Put(t, len(t.rows))
	if errors.Is(err, mailbox.ErrFull) {
		return nil, fmt.Errorf("model %q: %w: %w", i.id, ErrOverloaded, err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// lookFor looks up what is known of an observation's id before its turn: it is
// the dear part of an observation, and callers share the work of it.
func (i *instance) lookFor(r *row, now time.Time) (err error) {
	if r.id, err = r.identity(); err != nil {
		return err
	}
	if r.PredictionID == "" {
		if len(r.Features) == 0 && r.Inputs == nil {
			return i.inputMissing("prediction_id", "the id of a prediction, or "+i.inputForm())
		}
		in := Row{Features: r.Features, Inputs: r.Inputs}
		if err := i.checkRow(&in); err != nil {
			return err
		}
		if r.Inputs != nil {
			r.inputs = r.Inputs.Append(nil)
		}
	}
	if err := i.checkKind(&r.Observation); err != nil || r.id == "" {
		return err
	}
	r.looked = i.recent.generation.Load()
	if r.seen, err = i.lookUp(r.id); err != nil {
		return err
	}
	if r.waiting, err = i.waitingFor(r.id, now); err != nil {
		return err
	}
	if r.PredictionID != "" && r.waiting != nil {
		r.Features, r.inputs = r.waiting.Features, r.waiting.Inputs
		return i.errorf(fmt.Sprintf("read prediction %q", r.id), i.decode(r))
	}
	return nil
}

// decode reads the record of a prediction that waited.
func (i *instance) decode(r *row) error {
	if i.schema == nil {
		return nil
	}
	r.Inputs = new(input.Record)
	_, err := r.Inputs.Decode(r.inputs)
	if err == nil {
		err = i.schema.Settle(r.Inputs)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// checkKind refuses a class where labels are real, and a real label where they are
// classes.
func (i *instance) checkKind(o *Observation) error {
	switch {
	case i.Spec.Classes == nil && o.Class != "":
		return &model.FieldError{
			Field: "class", Err: model.ErrLabelKind, Got: fmt.Sprintf("%q", o.Class), Want: "a label, a number: the model's spec has no classes",
		}
	case i.Spec.Classes != nil && len(o.Labels) > 0:
		return &model.FieldError{Field: "label", Err: model.ErrLabelKind, Got: "a number", Want: "a class: the model's spec has classes"}
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
			err = i.mu.machine.Check(machine.Input{Features: r.Features, Record: r.Inputs}, r.Labels, r.Class, r.Weight)
		}
		if err != nil {
			return &RowError{Row: n, Err: err}
		}
	}
	return nil
}

func (i *instance) checkLabel(o *Observation) error {
	err := model.CheckWeight(o.Weight)
	switch {
	case err != nil:
	case i.Spec.Classes != nil:
		err = model.CheckClass(o.Class)
	default:
		err = model.CheckLabels(o.Labels, i.Spec.Outputs)
	}
	return err
}
