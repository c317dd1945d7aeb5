package engine

import (
	"context"
	"fmt"

	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
)

// Predict is PredictAt by the name of a model.
func (e *Engine) Predict(ctx context.Context, name string, rows []Row, o PredictOptions) ([]Prediction, error) {
	t, err := e.Resolve(name)
	if err != nil {
		return nil, err
	}
	return e.PredictAt(ctx, t, rows, o)
}

// PredictAt answers every row from one state, which it leaves as it was.
func (e *Engine) PredictAt(ctx context.Context, i Target, rows []Row, o PredictOptions) ([]Prediction, error) {
	started := e.o.Now()
	i.used.Store(started.UnixNano())
	o.Remember = o.Remember && i.follows() == nil // The labels are those of the model that it follows.
	if o.Remember {
		if err := i.here(); err != nil {
			return nil, err
		}
	}
	for n := range rows {
		if err := i.checkRow(&rows[n]); err != nil {
			return nil, &RowError{Row: n, Err: err}
		}
	}
	answers := newPredictions(len(rows), i.Spec.Outputs)
	if err := i.predict(ctx, answers, rows); err != nil {
		return nil, err
	}
	if o.Remember {
		span := begin(ctx, "remember")
		err := i.remember(answers, rows, o, started)
		span.End()
		if err != nil {
			return nil, err
		}
	}
	i.predictions.Add(uint64(len(rows)))
	i.timings.Predict(e.o.Now().Sub(started).Seconds(), traceID(ctx))
	return answers, nil
}

// predict answers the rows under the read lock.
func (i *instance) predict(ctx context.Context, answers []Prediction, rows []Row) error {
	if err := i.lockLoaded(ctx); err != nil {
		return err
	}
	defer i.mu.RUnlock()
	sequence, notes := i.mu.machine.Sequence(), i.mu.machine.AppendNotes(nil)
	for n, x := range rows {
		in := machine.Input{Features: x.Features, Record: x.Inputs}
		if err := i.mu.machine.Predict(&answers[n].ClassPrediction, in); err != nil {
			i.countPanic(err)
			return &RowError{Row: n, Err: err}
		}
		answers[n].Sequence, answers[n].Notes, answers[n].Levels = sequence, notes, i.Spec.Coverage
	}
	return nil
}

// checkRow refuses features of a model with named inputs, a record of one without
// them, and a record that is not one of its inputs. It reads the times of a record.
func (i *instance) checkRow(r *Row) error {
	switch {
	case i.schema == nil && r.Inputs != nil:
		return &model.FieldError{
			Field: "inputs", Err: ErrInvalidRequest, Got: "inputs by name",
			Want: i.inputForm() + ": the model has no named inputs",
		}
	case i.schema != nil && r.Inputs == nil && len(r.Features) == 0:
		return i.inputMissing("inputs", i.inputForm())
	case i.schema != nil && r.Inputs == nil:
		return &model.FieldError{
			Field: "features", Err: ErrInvalidRequest, Got: fmt.Sprintf("%d numbers", len(r.Features)),
			Want: i.inputForm() + ": the model has named inputs",
		}
	case i.schema != nil && len(r.Features) > 0:
		return &model.FieldError{
			Field: "features", Err: ErrInvalidRequest, Got: fmt.Sprintf("%d numbers beside inputs", len(r.Features)),
			Want: "inputs alone: the model has named inputs",
		}
	case i.schema != nil:
		return i.schema.Settle(r.Inputs)
	}
	return nil
}
