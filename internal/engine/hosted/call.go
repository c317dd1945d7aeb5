package hosted

import (
	"context"
	"fmt"
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Row is the input of a prediction: features, or a record of a model with named inputs.
type Row struct {
	Features []float64
	// Inputs is nil for features. The engine reads it during the call alone.
	Inputs *input.Record
	// Horizon is how many rows come between the next row and this one: see model.Prediction.
	Horizon int
	bytes   []byte
}

// Prediction is the answer to one row of Predict. Of a learner that is no classifier, Classes is nil and
// Class is NoClass.
type Prediction struct {
	model.ClassPrediction
	// ID names the prediction in Observe; empty if the prediction is not remembered.
	ID string
	// Sequence is how many observations the answer had learned from.
	Sequence uint64
	// Notes are what the account wants back with the label, the intervals among them: see
	// account.Interval. Levels are the coverages of the intervals.
	Notes, Levels []float64
	// Possible are the possible labels, nil for all.
	Possible *model.Label
	// Parts are what the families of experts say, if asked for.
	Parts []model.Part
}

// Interval is the prediction interval of an output at a level, by its place in Levels. It is not ok if
// the prediction has none.
func (p *Prediction) Interval(output, level int) (lower, upper float64, ok bool) {
	return account.Interval(p.Values[output], p.Notes, len(p.Values), len(p.Levels), output, level, p.Possible)
}

// NewClass is the probability that the class of a classifier's prediction is a new one.
func (p *Prediction) NewClass() float64 { return classes.NewClass(p.Notes) }

func newPredictions(n, outputs int) []Prediction {
	answers := make([]Prediction, n)
	values, deviations := make([]float64, n*outputs), make([]float64, n*outputs)
	for k := range answers {
		at, end := k*outputs, (k+1)*outputs
		answers[k].Values, answers[k].StandardErrors = values[at:end:end], deviations[at:end:end]
	}
	return answers
}

// PredictOptions say what becomes of a prediction.
type PredictOptions struct {
	// Remember keeps the prediction pending until the label comes or TTL has passed.
	Remember bool
	// IDs are chosen by the caller, one per row, or minted where empty.
	IDs []string
	// TTL 0 is the TTL in the model's metadata, and Options.LabelTTL if the model has none.
	TTL time.Duration
	// Explain asks for the Parts of every prediction. One that was remembered has those that were
	// asked for then.
	Explain bool
}

// Observation is what a caller reports.
type Observation struct {
	// PredictionID refers to a pending prediction. Without it, Features or Inputs are the input, as in
	// Row, and ObservationID is the identity, or empty.
	PredictionID  string
	Features      []float64
	Inputs        *input.Record
	ObservationID string
	// Labels are one per output. A classifier has a Class instead.
	Labels []float64
	Class  string
	// Weight is the importance of the observation, 1 as a rule.
	Weight float64
}

// identity is the id that the observation is learned under once, or empty. It rejects an observation
// with two identities, and one with an input beside a prediction.
func (o *Observation) identity() (string, error) {
	switch {
	case o.PredictionID == "":
		return o.ObservationID, checkObservationID("observation_id", o.ObservationID)
	case len(o.Features) > 0 || o.Inputs != nil:
		field := "features"
		if o.Inputs != nil {
			field = "inputs"
		}
		return "", Invalid(field, "both prediction_id and "+field, "one of them; to send "+field+" for a prediction, give its id as observation_id")
	case o.ObservationID != "" && o.ObservationID != o.PredictionID:
		return "", Invalid("observation_id", fmt.Sprintf("%q beside a prediction_id", o.ObservationID), "no observation_id: a prediction_id already is the identity")
	}
	return o.PredictionID, checkObservationID("prediction_id", o.PredictionID)
}

func checkObservationID(field, id string) error {
	if len(id) <= storage.MaxID {
		return nil
	}
	return &model.FieldError{
		Field: field, Err: ErrInvalidID,
		Got: fmt.Sprintf("%d bytes", len(id)), Want: fmt.Sprintf("at most %d bytes", storage.MaxID),
	}
}

// Answer is what came of one observation.
type Answer = record.Answer

type row struct {
	Observation
	inputs []byte
	// id is the observation's identity, empty if it has none.
	id string
	// pending is the pending prediction that the observation answers, or nil.
	pending *record.Pending
}

// Ticket is an accepted call of Submit.
type Ticket struct {
	rows    []row
	started time.Time
	done    chan struct{}
	answers []Answer
	err     error
	// stages are nil unless the call is traced.
	stages *stages
	// A call of one observation has its row and its answer here.
	oneRow    [1]row
	oneAnswer [1]Answer
}

func newTicket(rows int, started time.Time) *Ticket {
	t := &Ticket{started: started, done: make(chan struct{})}
	if rows == 1 {
		t.rows, t.answers = t.oneRow[:], t.oneAnswer[:]
	} else {
		t.rows, t.answers = make([]row, rows), make([]Answer, rows)
	}
	return t
}

func (t *Ticket) reject(err error) { t.answers, t.err = nil, err }

// Wait returns the answers, one per observation, once they are durable and learned. If the context ends
// first, the observations are learned all the same, and the same ids sent again bring the answers.
func (t *Ticket) Wait(ctx context.Context) ([]Answer, error) {
	select {
	case <-t.done:
	default:
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("engine: wait for the observation: %w", context.Cause(ctx))
		}
	}
	t.stages.report(ctx, t.started)
	return t.answers, t.err
}
