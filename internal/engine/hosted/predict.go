package hosted

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// Predict answers every row from one state, which it leaves as it was.
func (m *Model) Predict(ctx context.Context, rows []Row, o PredictOptions) ([]Prediction, error) {
	started := m.env.Now()
	m.Touch(started)
	o.Remember = o.Remember && m.registered.Load().Follow == nil // The leader gets the labels.
	if err := CheckRows(len(rows), func(n int) error { return m.checkRow(&rows[n]) }); err != nil {
		return nil, err
	}
	if o.Explain && m.source.Spec.Auto == nil {
		return nil, Invalid("explain", "true", "nothing: auto alone explains its predictions")
	}
	answers := newPredictions(len(rows), m.source.Spec.Outputs)
	if err := m.predict(ctx, answers, rows, o.Explain); err != nil {
		return nil, err
	}
	if o.Remember {
		span := StartSpan(ctx, "remember")
		err := m.remember(ctx, answers, rows, o, m.env.Time())
		span.End()
		if err != nil {
			return nil, err
		}
	}
	m.usage.predictions.Add(uint64(len(rows)))
	m.owner.Timings().Predict(m.env.Now().Sub(started).Seconds(), TraceID(ctx))
	return answers, nil
}

func (m *Model) predict(ctx context.Context, answers []Prediction, rows []Row, explain bool) error {
	if err := m.lockLoaded(ctx); err != nil {
		return err
	}
	defer m.state.RUnlock()
	loaded := m.state.machine
	sequence := loaded.Sequence()
	all, inputs := make([]*model.ClassPrediction, len(rows)), make([]machine.Input, len(rows))
	for n, x := range rows {
		answers[n].Horizon = x.Horizon
		all[n], inputs[n] = &answers[n].ClassPrediction, machine.Input{Features: x.Features, Record: x.Inputs}
	}
	if at, err := loaded.PredictAll(all, inputs); err != nil {
		m.env.CountPanic(err)
		return &RowError{Row: at, Err: err}
	}
	var notes []float64
	for n := range rows {
		if explain {
			var err error
			if answers[n].Parts, err = loaded.Explain(&answers[n].Prediction, inputs[n]); err != nil {
				m.env.CountPanic(err)
				return &RowError{Row: n, Err: err}
			}
		}
		if n == 1 {
			notes = slices.Grow(notes, len(notes)*(len(rows)-1))
		}
		start := len(notes)
		notes = loaded.AppendNotes(notes, answers[n].Values, answers[n].Spread)
		answers[n].Sequence, answers[n].Levels = sequence, m.source.Spec.Coverage
		answers[n].Notes = notes[start:len(notes):len(notes)]
		answers[n].Possible = m.source.Spec.Label
	}
	return nil
}

// checkRow rejects features of a model with named inputs, a record of a model without them, and a
// record that does not fit the inputs. It reads the times of a record.
func (m *Model) checkRow(r *Row) error {
	switch {
	case m.schema == nil && r.Inputs != nil:
		return Invalid("inputs", "inputs by name", m.inputForm()+": the model has no named inputs")
	case m.schema == nil:
		return nil
	case r.Inputs == nil && len(r.Features) == 0:
		return m.inputMissing("inputs", m.inputForm())
	case r.Inputs == nil:
		return Invalid("features", fmt.Sprintf("%d numbers", len(r.Features)), m.inputForm()+": the model has named inputs")
	case len(r.Features) > 0:
		return Invalid("features", fmt.Sprintf("%d numbers beside inputs", len(r.Features)), "inputs alone: the model has named inputs")
	}
	return m.schema.Accept(r.Inputs)
}

func (m *Model) inputField() string {
	if m.schema != nil {
		return "inputs"
	}
	return "features"
}

func (m *Model) inputForm() string {
	if m.schema != nil {
		return fmt.Sprintf("inputs, an object such as {%q: …}", m.schema.Name(0))
	}
	return fmt.Sprintf("features, %d numbers", m.source.Spec.Dimension)
}

func (m *Model) inputMissing(field, want string) error {
	err := ErrInvalidRequest
	if m.schema == nil {
		err = model.ErrDimensionMismatch
	}
	return &model.FieldError{Field: field, Err: err, Got: "nothing", Want: want}
}

// remember stores the inputs and the answer of every row under the row's id. A prediction that is
// pending under an id of the caller, with the same input, is answered as it was first.
func (m *Model) remember(ctx context.Context, answers []Prediction, rows []Row, o PredictOptions, now time.Time) error {
	metadata := &m.registered.Load().Metadata
	expiry := now.Add(cmp.Or(o.TTL, time.Duration(metadata.LabelTTL), m.env.LabelTTL))
	if len(o.IDs) > 0 {
		// No other call takes an id between its look-up and its use.
		release, err := m.pending.choosing.take(ctx, o.IDs)
		if err != nil {
			return err
		}
		defer release()
	}
	stored := make([]storage.Prediction, 0, len(rows))
	chosen := map[string]int{}
	for n := range rows {
		x := &rows[n]
		if x.Inputs != nil {
			x.bytes = x.Inputs.Append(nil)
		}
		minted := len(o.IDs) == 0 || o.IDs[n] == ""
		if minted {
			id, err := m.env.NewID()
			if err != nil {
				return fmt.Errorf("engine: mint a prediction id: %w", err)
			}
			answers[n].ID = id
		} else {
			known, err := m.choose(answers, rows, chosen, n, o.IDs[n], now)
			if err != nil {
				return &RowError{Row: n, Err: err}
			}
			if known {
				continue
			}
		}
		w := record.Pending{
			ClassPrediction: answers[n].ClassPrediction, Sequence: answers[n].Sequence, Notes: answers[n].Notes,
			Features: x.Features, Inputs: x.bytes, Parts: answers[n].Parts,
		}
		value := w.Encode(m.source.Spec.Classes != nil)
		stored = append(stored, storage.Prediction{ID: answers[n].ID, Value: value, Expiry: expiry, Minted: minted})
	}
	if len(stored) == 0 {
		// If a write has failed, a known prediction may be in memory alone.
		return m.id.storagef("remember predictions", m.env.Store.Failed())
	}
	if err := m.env.CheckPending(m.ID(), metadata.MaxPending, m.pending.count(), int64(len(stored))); err != nil {
		return err
	}
	return m.id.storagef("remember predictions", m.pending.store.PutPending(stored))
}

// choose gives row n an id of the caller, and reports whether the prediction of that id is pending
// already or an earlier row has the id. Chosen has the rows of the ids of this call.
func (m *Model) choose(answers []Prediction, rows []Row, chosen map[string]int, n int, id string, now time.Time) (known bool, err error) {
	if err := checkObservationID("prediction_id", id); err != nil {
		return false, err
	}
	if first, twice := chosen[id]; twice {
		if !record.SameInput(rows[first].Features, rows[first].bytes, rows[n].Features, rows[n].bytes) {
			return false, fmt.Errorf("prediction_id %q: %w: row %d has it with other %s", id, ErrConflict, first, m.inputField())
		}
		answers[n] = answers[first]
		return true, nil
	}
	chosen[id] = n
	learned, err := m.journal.lookUp(id)
	if err != nil {
		return false, err
	}
	if learned != nil {
		return false, fmt.Errorf("prediction_id %q: %w: its label has been observed", id, ErrConflict)
	}
	w, err := m.pending.get(id, m.source.Spec.Outputs, now)
	if err != nil || w == nil {
		answers[n].ID = id
		return false, err
	}
	if !record.SameInput(w.Features, w.Inputs, rows[n].Features, rows[n].bytes) {
		return false, fmt.Errorf("prediction_id %q: %w: it was predicted with other %s", id, ErrConflict, m.inputField())
	}
	answers[n] = Prediction{ClassPrediction: w.ClassPrediction, ID: id, Parts: w.Parts, Sequence: w.Sequence, Notes: w.Notes, Levels: m.source.Spec.Coverage, Possible: m.source.Spec.Label}
	return true, nil
}
