package engine

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// LearnedInput is what has been learned of one named input.
type LearnedInput struct {
	Name string
	// Features are the names of its features, in their order.
	Features []string
	// Categories have a feature, in the order of first appearance.
	Categories []Category
	Statistics input.Statistics
}

// Category is a category of an input, with how often it was observed.
type Category struct {
	Name         string
	Observations uint64
}

// learnedInputs are what an encoder has learned, none without one.
func learnedInputs(e *input.Encoder) []LearnedInput {
	if e == nil {
		return nil
	}
	schema, names := e.Schema(), e.Names()
	all := make([]LearnedInput, schema.Len())
	for n := range all {
		from, to := schema.Span(n)
		all[n] = LearnedInput{Name: schema.Name(n), Features: names[from:to:to], Statistics: e.Statistics(n)}
		for k := range all[n].Statistics.Categories {
			name, count := e.Category(n, k)
			all[n].Categories = append(all[n].Categories, Category{Name: name, Observations: count})
		}
	}
	return all
}

// Row is what a prediction is of: features, or a record of a model with named
// inputs.
type Row struct {
	Features []float64
	// Inputs is nil for features. The engine reads it during the call alone.
	Inputs *input.Record
	// bytes are those of Inputs, once the prediction is to be remembered.
	bytes []byte
}

// Prediction is the answer to one row of Predict. Classes and Probabilities are
// those of a classifier; for others Classes is nil, and Class is NoClass.
type Prediction struct {
	model.ClassPrediction
	// ID names the prediction in Observe; empty when it is not remembered.
	ID string
	// Sequence is how many observations the answer had learned from.
	Sequence uint64
	// Notes are what the account wants back with the label, the intervals among
	// them: see account.Interval. Levels are the coverages of the intervals.
	Notes, Levels []float64
}

// Interval is the prediction interval of an output at a level, by its place in
// Levels. There is none if ok is false.
func (p *Prediction) Interval(output, level int) (lower, upper float64, ok bool) {
	return account.Interval(p.Values[output], p.Notes, len(p.Values), len(p.Levels), output, level)
}

// newPredictions makes room for predictions in three allocations.
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
	// Remember keeps the features until the label comes or TTL has passed.
	Remember bool
	// IDs are chosen by the caller, one per row, or by the engine when empty.
	IDs []string
	// TTL is that of the model's metadata when 0, and Options.LabelTTL if this is 0 too.
	TTL time.Duration
}

// StatsOptions say which figures statistics have that they leave out otherwise.
type StatsOptions struct {
	// EffectiveDimension costs O(r³) to solve, HindsightPath is r + 1 numbers.
	EffectiveDimension, HindsightPath bool
}

// Observation is what a caller reports.
type Observation struct {
	// PredictionID refers to a remembered prediction; else Features or Inputs are
	// the input, as in Row. With them, ObservationID is the identity, or empty.
	PredictionID  string
	Features      []float64
	Inputs        *input.Record
	ObservationID string
	// Labels are one per output. Class is the label of a classifier, which has no
	// Labels.
	Labels []float64
	Class  string
	// Weight is the importance of the observation; 1 when there is nothing
	// to say.
	Weight float64
}

// identity is the id that the observation is learned under once, empty when it
// has none. It refuses an observation that names two, or features twice.
func (o *Observation) identity() (string, error) {
	switch {
	case o.PredictionID == "":
		return o.ObservationID, checkObservationID("observation_id", o.ObservationID)
	case len(o.Features) > 0 || o.Inputs != nil:
		field := "features"
		if o.Inputs != nil {
			field = "inputs"
		}
		return "", &model.FieldError{
			Field: field, Err: ErrInvalidRequest, Got: "both prediction_id and " + field,
			Want: "one of them; to send " + field + " for a prediction, give its id as observation_id",
		}
	case o.ObservationID != "" && o.ObservationID != o.PredictionID:
		return "", &model.FieldError{
			Field: "observation_id", Err: ErrInvalidRequest, Got: fmt.Sprintf("%q beside a prediction_id", o.ObservationID),
			Want: "no observation_id: a prediction_id already is the identity",
		}
	}
	return o.PredictionID, checkObservationID("prediction_id", o.PredictionID)
}

// Answer is what came of one observation.
type Answer = record.Answer

// row is an observation on its way: what the caller said and what was looked
// up before its turn.
type row struct {
	Observation
	// inputs are the bytes of Inputs.
	inputs []byte
	// id is the observation's identity, empty when it has none.
	id string
	// waiting is the prediction that the observation answers, or nil.
	waiting *record.Waiting
	// seen is what was remembered under the id before the row's turn, nil if
	// nothing was; looked is the generation of the ids at that time.
	seen   []byte
	looked uint64
}

// Ticket is an accepted call of Submit, waiting to be durable and learned.
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

// newTicket makes a ticket of so many rows.
func newTicket(rows int, started time.Time) *Ticket {
	t := &Ticket{started: started, done: make(chan struct{})}
	if rows == 1 {
		t.rows, t.answers = t.oneRow[:], t.oneAnswer[:]
	} else {
		t.rows, t.answers = make([]row, rows), make([]Answer, rows)
	}
	return t
}

// refuse gives the ticket an error in place of answers.
func (t *Ticket) refuse(err error) { t.answers, t.err = nil, err }

// Wait gives the answers, one per observation, once they are durable and
// learned. It gives up with the context; the observations are then learned
// all the same, and the same ids sent again bring the answers.
func (t *Ticket) Wait(ctx context.Context) ([]Answer, error) {
	select {
	case <-t.done:
		t.stages.tell(ctx, t.started)
		return t.answers, t.err
	default:
	}
	select {
	case <-t.done:
		t.stages.tell(ctx, t.started)
		return t.answers, t.err
	case <-ctx.Done():
		return nil, fmt.Errorf("engine: wait for the observation: %w", context.Cause(ctx))
	}
}

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// idForm says in words what idPattern accepts.
const idForm = "1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit"

// CheckID accepts a model id: [a-z0-9]([a-z0-9._-]{0,62}).
func CheckID(id string) error {
	if idPattern.MatchString(id) {
		return nil
	}
	got := fmt.Sprintf("%q", brief(id))
	if id == "" {
		got = "nothing"
	}
	return &model.FieldError{Field: "id", Got: got, Err: ErrInvalidID, Want: idForm}
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
