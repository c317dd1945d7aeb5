// Package drive takes a stream of labelled rounds through a model. For every
// round it asks for a prediction, sends the label, and adds the outcome to the
// account; or it observes the rounds in batches, without predictions.
package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
)

// Source yields the rounds of a stream, and io.EOF after the last.
type Source interface {
	Next() (stream.Round, error)
}

// Observed is one acknowledged observation.
type Observed struct {
	T       int       // The round of the stream, from 1, with the skipped rounds.
	Labels  []float64 // What was learned,
	Class   string    // or the class.
	Outcome *hindsightv1.Outcome
}

// Options say how a stream is taken through a model.
type Options struct {
	// Run is the prefix of every prediction id; the number of the round follows. A server
	// learns an id only once.
	Run string
	// Offset is how many rounds of the stream were skipped.
	Offset int
	// Delay is how many rounds later the labels come: the label of round t is sent after the
	// prediction of round t+Delay and before the next prediction. The remaining labels follow
	// at the end of the stream.
	Delay int
	// Batches observes the rounds in batches and asks for no prediction. It excludes Delay.
	Batches bool
	// Retry says how a call without an answer is sent again. The end of the context of Run
	// ends the retries too.
	Retry client.Retry
	// OnObserved is called for every acknowledged observation, in the order of the labels. An
	// error ends the run. It may be nil.
	OnObserved func(Observed) error
}

// Result is the account of a run.
type Result struct {
	Rounds       int     // begun
	Acknowledged int     // observations that the server has acknowledged
	NextOffset   int     // where the stream continues: every round before is acknowledged or has no label
	Unlabelled   int     // rounds without a label, which are only predicted
	Duplicates   int     // observations that an earlier run or call had learned
	Retries      int     // how often calls were sent again
	SetAside     int     // labels that the label gate set aside
	Batches      int     // batches that were observed
	LossSum      float64 // the sum of all prequential losses
	Elapsed      time.Duration
}

// RoundsPerSecond is the rate of acknowledged rounds.
func (r *Result) RoundsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Acknowledged) / r.Elapsed.Seconds()
}

// Run takes the stream through the model until the stream ends. When ctx ends, Run finishes the
// calls in flight, sends the labels that are due, and returns the error of ctx. It does not send
// labels that are not due, so that a run that continues at NextOffset makes the same calls. The
// result is never nil. With an error it covers the rounds before the error.
func Run(ctx context.Context, c *client.Client, model string, source Source, o Options) (*Result, error) {
	var retries atomic.Int64
	retry := o.Retry
	retry.Stop = ctx.Done()
	retry.OnRetry = func(error, time.Duration) { retries.Add(1) }
	d := &driver{
		source:  source,
		options: o,
		result:  &Result{NextOffset: o.Offset},
		next:    o.Offset,
		ahead:   make(map[int]bool),
	}
	take := d.run
	if o.Batches {
		take = d.batches
	}
	start := time.Now()
	err := take(ctx, c.With(retry).Model(model))
	d.result.Elapsed = time.Since(start)
	d.result.Retries = int(retries.Load())
	return d.result, err
}

type driver struct {
	source  Source
	options Options
	result  *Result
	next    int // rounds of the stream that have begun, with the skipped rounds

	upcoming *flight      // was read and has not begun
	due      []*flight    // rounds whose labels are not sent, in their order
	stop     error        // why no more rounds begin; io.EOF at the end of the stream
	ahead    map[int]bool // passed rounds behind a round that is not
}

// flight is a round that has begun, or is the next to begin.
type flight struct {
	t     int
	id    string
	round stream.Round
	known bool // observe by the input: the server knows no prediction, or the label already
}

// run takes the rounds through the model, one call after another.
func (d *driver) run(ctx context.Context, m *client.Model) error {
	calling := context.WithoutCancel(ctx)
	for {
		call := d.observe
		f := d.label(ctx)
		if f == nil {
			call = d.predict
			f = d.begin()
		}
		if f == nil {
			return d.ended()
		}
		if err := call(calling, m, f); err != nil {
			return err
		}
	}
}

type interruption struct{ cause error }

func (*interruption) Error() string { return "interrupted" }

func (i *interruption) Unwrap() error { return i.cause }

// label returns the round whose label is sent before the next prediction, or nil. No prediction follows the end
// of ctx.
func (d *driver) label(ctx context.Context) *flight {
	next := d.read()
	if len(d.due) > 0 && (d.due[0].t+d.options.Delay <= d.next || errors.Is(d.stop, io.EOF)) {
		f := d.due[0]
		d.due = d.due[1:]
		return f
	}
	if next != nil && ctx.Err() != nil {
		d.upcoming, d.stop = nil, &interruption{ctx.Err()}
	}
	return nil
}

// read returns the upcoming round, or nil if there is none; stop says why.
func (d *driver) read() *flight {
	if d.upcoming != nil || d.stop != nil {
		return d.upcoming
	}
	var round stream.Round
	if round, d.stop = d.source.Next(); d.stop != nil {
		return nil
	}
	t := d.next + 1
	d.upcoming = &flight{t: t, id: d.options.Run + "-" + strconv.Itoa(t), round: round}
	return d.upcoming
}

// begin returns the upcoming round and queues its label. It returns nil at the end of the run.
func (d *driver) begin() *flight {
	f := d.upcoming
	if f == nil {
		return nil
	}
	d.upcoming = nil
	d.next++
	d.result.Rounds++
	if !f.round.Unlabelled {
		d.due = append(d.due, f)
	}
	return f
}

func (d *driver) predict(ctx context.Context, m *client.Model, f *flight) error {
	request := &hindsightv1.PredictRequest{PredictionId: f.id, Features: f.round.Features, Inputs: f.round.Inputs}
	if f.round.Unlabelled {
		request.PredictionId, request.Remember = "", new(bool)
	}
	_, err := m.Predict(ctx, request)
	switch {
	// An earlier run may have sent the label and stopped before the answer. Then Observe with
	// the input returns the first answer. If the id has another input, Observe rejects too.
	case errors.Is(err, client.ErrObservationConflict):
		f.known = true
	case err != nil:
		return fmt.Errorf("round %d: predict: %w", f.t, err)
	}
	if f.round.Unlabelled {
		d.result.Unlabelled++
		d.pass(f.t)
	}
	return nil
}

func (d *driver) observe(ctx context.Context, m *client.Model, f *flight) error {
	outcome, err := m.Observe(ctx, f.observation())
	if err != nil {
		return fmt.Errorf("round %d: observe: %w", f.t, err)
	}
	return d.acknowledge(f, outcome)
}

func (d *driver) acknowledge(f *flight, outcome *hindsightv1.Outcome) error {
	r := d.result
	r.Acknowledged++
	d.pass(f.t)
	if outcome.GetDuplicate() {
		r.Duplicates++
	}
	if outcome.GetSetAside() {
		r.SetAside++
	}
	r.LossSum += outcome.GetLoss()
	if d.options.OnObserved == nil {
		return nil
	}
	if err := d.options.OnObserved(Observed{T: f.t, Labels: f.round.Labels, Class: f.round.Class, Outcome: outcome}); err != nil {
		return fmt.Errorf("round %d: %w", f.t, err)
	}
	return nil
}

// pass moves NextOffset over round t, once all rounds before are passed too.
func (d *driver) pass(t int) {
	r := d.result
	d.ahead[t] = true
	for d.ahead[r.NextOffset+1] {
		r.NextOffset++
		delete(d.ahead, r.NextOffset)
	}
}

func (f *flight) observation() *hindsightv1.ObserveRequest {
	o := &hindsightv1.ObserveRequest{PredictionId: f.id, Features: f.round.Features, Inputs: f.round.Inputs}
	if f.known {
		o.PredictionId, o.ObservationId = "", f.id
	}
	switch {
	case f.round.Class != "":
		o.Target = client.Class(f.round.Class)
	case len(f.round.Labels) == 1:
		o.Target = client.Label(f.round.Labels[0])
	default:
		o.Target = client.Labels(f.round.Labels...)
	}
	return o
}
