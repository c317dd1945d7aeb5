package hosted

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

// The life of an observation:
//
//	caller  Submit    rejects a follower
//	        lookFor   looks up the pending prediction
//	        check     rejects what the learner would not learn
//	        box.Put   queues the ticket
//	turn    handle    takes a batch of tickets, and those of other models
//	        place     answers a duplicate, or adds a row to the record of the commit
//	        append    makes the records durable, each with the ids of the model's record before it
//	        learn     lets the machine learn the record
//	        finish    answers every ticket
//	caller  Wait      returns the answers

// Submit checks observations and queues them for the model's turn: they are learned in the order of the
// calls, all or none of one call. Submit waits only for a model that is not in memory: a full queue is
// ErrOverloaded.
func (m *Model) Submit(ctx context.Context, observations []Observation) (*Ticket, error) {
	if f := m.registered.Load().Follow; f != nil {
		return nil, fmt.Errorf("model %q: %w: observe %q", m.ID(), ErrFollows, f.Leader.ID)
	}
	t := newTicket(len(observations), m.env.Now())
	if id := TraceID(ctx); id != "" {
		t.stages = &stages{id: id}
	}
	m.Touch(t.started)
	now := m.env.Time()
	if err := CheckRows(len(observations), func(n int) error {
		t.rows[n].Observation = observations[n]
		return m.lookFor(&t.rows[n], now)
	}); err != nil {
		return nil, err
	}
	if err := m.check(ctx, t.rows); err != nil {
		return nil, err
	}
	for n := range t.rows {
		t.rows[n].Inputs = nil // The record is the caller's again.
	}
	err := m.box.Put(t, len(t.rows))
	if errors.Is(err, mailbox.ErrFull) {
		return nil, fmt.Errorf("model %q: %w: %w", m.ID(), ErrOverloaded, err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// lookFor looks up the pending prediction of an observation's id. It runs before the model's turn, so that concurrent
// callers read the disk in parallel.
func (m *Model) lookFor(r *row, now time.Time) (err error) {
	if r.id, err = r.identity(); err != nil {
		return err
	}
	if r.PredictionID == "" {
		if len(r.Features) == 0 && r.Inputs == nil {
			return m.inputMissing("prediction_id", "the id of a prediction, or "+m.inputForm())
		}
		in := Row{Features: r.Features, Inputs: r.Inputs}
		if err := m.checkRow(&in); err != nil {
			return err
		}
		if r.Inputs != nil {
			r.inputs = r.Inputs.Append(nil)
		}
	}
	if err := m.checkKind(&r.Observation); err != nil || r.id == "" {
		return err
	}
	if r.pending, err = m.pending.get(r.id, m.source.Spec.Outputs, now); err != nil {
		return err
	}
	if r.PredictionID != "" && r.pending != nil {
		r.Features, r.inputs = r.pending.Features, r.pending.Inputs
		r.Inputs, err = m.decode(r.inputs)
		return m.id.errorf(fmt.Sprintf("read prediction %q", r.id), err)
	}
	return nil
}

// decode reads a stored record of named inputs, nil of a model without them.
func (m *Model) decode(stored []byte) (*input.Record, error) {
	if m.schema == nil {
		return nil, nil
	}
	r := new(input.Record)
	_, err := r.Decode(stored)
	if err == nil {
		err = m.schema.Accept(r)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r, nil
}

func (m *Model) checkKind(o *Observation) error {
	classes := m.source.Spec.Classes
	switch {
	case classes == nil && o.Class != "":
		return &model.FieldError{
			Field: "class", Err: model.ErrLabelKind, Got: fmt.Sprintf("%q", o.Class), Want: "a label, a number: the model's spec has no classes",
		}
	case classes != nil && len(o.Labels) > 0:
		return &model.FieldError{Field: "label", Err: model.ErrLabelKind, Got: "a number", Want: "a class: the model's spec has classes"}
	}
	return nil
}

// check rejects what the learner would not learn. The learner learns everything else.
func (m *Model) check(ctx context.Context, rows []row) error {
	if err := m.lockLoaded(ctx); err != nil {
		return err
	}
	defer m.state.RUnlock()
	return CheckRows(len(rows), func(n int) error {
		r := &rows[n]
		if r.PredictionID != "" && r.pending == nil {
			// Unknown, expired, or already observed: place decides at the turn.
			return m.checkLabel(&r.Observation)
		}
		return m.state.machine.Check(machine.Input{Features: r.Features, Record: r.Inputs}, r.Labels, r.Class, r.Weight)
	})
}

func (m *Model) checkLabel(o *Observation) error {
	if err := model.CheckWeight(o.Weight); err != nil {
		return err
	}
	if m.source.Spec.Classes != nil {
		return model.CheckClass(o.Class)
	}
	return model.CheckLabels(o.Labels, m.source.Spec.Outputs)
}
