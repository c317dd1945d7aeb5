package engine

import (
	"context"
	"fmt"
	"time"

	"hindsight/internal/model"
)

// Observation is what a caller reports.
type Observation struct {
	// PredictionID refers to a remembered prediction; else Features are the
	// input. With Features, ObservationID is the identity, or empty.
	PredictionID  string
	Features      []float64
	ObservationID string
	// Labels are one per output.
	Labels []float64
	// Weight is the importance of the observation; 1 when there is nothing
	// to say.
	Weight float64
}

// Answer is what came of one observation.
type Answer struct {
	// Sequence is the place of the observation in the model's history.
	Sequence uint64
	// Predictions are the prequential predictions, one per output.
	Predictions []float64
	// Loss is their loss, Regret the model's regret after the observation, NaN
	// when it is not known a round.
	Loss, Regret float64
	// Served says that there had been a prediction, ServedPredictions what
	// the client was told and ServedLoss its loss.
	Served            bool
	ServedPredictions []float64
	ServedLoss        float64
	// Duplicate says that the observation had been learned before; the rest
	// is its first answer.
	Duplicate bool
}

// Ticket is an accepted call of Submit, waiting to be durable and learned.
type Ticket struct {
	rows    []row
	started time.Time
	done    chan struct{}
	answers []Answer
	err     error
}

// row is an observation on its way: what the caller said and what was looked
// up before it reached the writer.
type row struct {
	Observation
	// id is the observation's identity, empty when it has none.
	id string
	// waiting is the prediction that the observation answers, or nil.
	waiting *pending
}

// Wait gives the answers, one per observation, once they are durable and
// learned. It gives up with the context; the observations are then learned
// all the same, and the same ids sent again bring the answers.
func (t *Ticket) Wait(ctx context.Context) ([]Answer, error) {
	select {
	case <-t.done:
		return t.answers, t.err
	default:
	}
	select {
	case <-t.done:
		return t.answers, t.err
	case <-ctx.Done():
		return nil, fmt.Errorf("engine: wait for the observation: %w", context.Cause(ctx))
	}
}

// Observe is Submit and Wait.
func (e *Engine) Observe(ctx context.Context, id string, observations []Observation) ([]Answer, error) {
	t, err := e.Submit(ctx, id, observations)
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// Submit checks observations and queues them for the model's writer: they
// are learned in the order of the calls, all or none of one call. It waits only
// for a model that is not in memory: a full queue is ErrOverloaded.
func (e *Engine) Submit(ctx context.Context, id string, observations []Observation) (*Ticket, error) {
	t := &Ticket{started: e.o.Now(), done: make(chan struct{}), rows: make([]row, len(observations))}
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	i.used.Store(t.started.UnixNano())
	for n, o := range observations {
		r, err := i.prepare(ctx, o, t.started)
		if err != nil {
			return nil, &RowError{Row: n, Err: err}
		}
		t.rows[n] = r
	}
	if err := i.enqueue(t); err != nil {
		return nil, err
	}
	return t, nil
}

// prepare checks one observation and looks up its prediction. What prepare
// accepts, the learner accepts.
func (i *instance) prepare(ctx context.Context, o Observation, now time.Time) (row, error) {
	r := row{Observation: o, id: o.ObservationID}
	switch {
	case o.PredictionID != "" && len(o.Features) > 0:
		return row{}, &model.FieldError{
			Field: "features", Err: ErrInvalidRequest, Got: "both prediction_id and features",
			Want: "one of them; to send features for a prediction, give its id as observation_id",
		}
	case o.PredictionID != "" && o.ObservationID != "" && o.ObservationID != o.PredictionID:
		return row{}, &model.FieldError{
			Field: "observation_id", Err: ErrInvalidRequest, Got: fmt.Sprintf("%q beside a prediction_id", o.ObservationID),
			Want: "no observation_id: a prediction_id already is the identity",
		}
	case o.PredictionID != "":
		r.id = o.PredictionID
		if err := checkObservationID("prediction_id", r.id); err != nil {
			return row{}, err
		}
	default:
		if err := checkObservationID("observation_id", r.id); err != nil {
			return row{}, err
		}
	}
	if r.id != "" {
		var err error
		if r.waiting, err = i.waiting(r.id, now); err != nil {
			return row{}, err
		}
	}
	x := o.Features
	if o.PredictionID != "" {
		if r.waiting == nil {
			// Unknown, expired, or already observed: the writer finds out.
			return r, i.checkLabel(o)
		}
		x = r.waiting.Features
		r.Features = x
	}
	if err := i.lockLoaded(ctx); err != nil {
		return row{}, err
	}
	defer i.mu.RUnlock()
	return r, i.mu.learner.Check(x, o.Labels, o.Weight) //nolint:wrapcheck // A *model.FieldError is the answer.
}

func (i *instance) checkLabel(o Observation) error {
	if err := model.CheckLabels(o.Labels, i.spec.Outputs); err != nil {
		return err //nolint:wrapcheck // A *model.FieldError is the answer.
	}
	return model.CheckWeight(o.Weight) //nolint:wrapcheck // A *model.FieldError is the answer.
}
