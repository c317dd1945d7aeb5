package engine

import (
	"context"

	"hindsight/internal/model/input"
)

// Predict answers every row from one state, which it leaves as it was.
func (e *Engine) Predict(ctx context.Context, id string, rows []Row, o PredictOptions) ([]Prediction, error) {
	started := e.o.Now()
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	i.used.Store(started.UnixNano())
	answers := newPredictions(len(rows), i.Spec.Outputs)
	if err := i.predict(ctx, answers, rows); err != nil {
		return nil, err
	}
	if o.Remember {
		if err := i.remember(answers, rows, o, started); err != nil {
			return nil, err
		}
	}
	i.predictions.Add(uint64(len(rows)))
	i.timings.Predict(e.o.Now().Sub(started).Seconds())
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
		if err := i.mu.machine.Predict(&answers[n].Prediction, x.Features); err != nil {
			i.countPanic(err)
			return &RowError{Row: n, Err: err}
		}
		answers[n].Sequence, answers[n].Notes, answers[n].Levels = sequence, notes, i.Spec.Coverage
	}
	return nil
}

// Schema is what a model's records are read by, nil for one without named inputs.
func (e *Engine) Schema(id string) (*input.Schema, error) {
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	return i.schema, nil
}
