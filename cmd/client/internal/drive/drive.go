// Package drive takes a stream of labelled rounds through a model. For every
// round it asks for a prediction, sends the label, and adds the outcome to the
// account; or it observes the rounds in batches, without predictions.
package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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
	// Timed: labels come by the times of the rounds in place of Delay. The time of the stream
	// is the largest stream.Round.Time so far. A label is sent before the first prediction at
	// which the time of the stream has reached its LabelTime; the remaining labels follow at
	// the end. Labels are sent in the order of their times, then of their rounds.
	Timed bool
	// Batches observes the rounds in batches and asks for no prediction. It excludes Delay,
	// Timed and Pipeline.
	Batches bool
	// Pipeline is how many calls may be in flight in one session. With 0 every call is unary
	// and is answered before the next call is made.
	Pipeline int
	// Retry says how a call without an answer is sent again. The end of the context of Run
	// ends the retries too.
	Retry client.Retry
	// OnObserved is called for every acknowledged observation, in the order of the labels. An
	// error ends the run. It may be nil.
	OnObserved func(Observed) error
}

// Result is the account of a run.
type Result struct {
	Rounds       int // begun
	Acknowledged int // observations that the server has acknowledged
	NextOffset   int // where the stream continues: every round before is acknowledged or has no label
	Unlabelled   int // rounds without a label, which are only predicted
	Duplicates   int // observations that an earlier run or call had learned
	Retries      int // how often calls were sent again
	SetAside     int // labels that the label gate set aside
	Batches      int // batches that were observed
	Judged       int // acknowledged rounds that losses count: see judged
	Classes      int // judged labels that are classes
	Errors       int // classes for which the prequential prediction was another class
	Served       int // acknowledged rounds that were predicted
	ServedJudged int // the judged ones of these
	// Behind is the most observations that the model learned between a served prediction and
	// its label.
	Behind  int
	LossSum float64 // the sum of all prequential losses
	// JudgedLoss is the sum of the prequential losses of the judged rounds, ServedLossSum that of their served losses.
	JudgedLoss, ServedLossSum float64
	Elapsed                   time.Duration
	// The latencies of the two calls, with the waits for their retries. With Options.Batches,
	// Observe is that of a batch, and Predict is empty.
	Predict, Observe Latency
}

// MeanLoss is the mean prequential loss of the judged rounds, 0 without one.
func (r *Result) MeanLoss() float64 {
	if r.Judged == 0 {
		return 0
	}
	return r.JudgedLoss / float64(r.Judged)
}

// judged reports whether losses count an observation, as the server's do: not the first of a model, and
// none whose label was set aside.
func judged(o *hindsightv1.Outcome) bool { return o.GetSequence() > 1 && !o.GetSetAside() }

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
	if o.Batches && (o.Delay > 0 || o.Timed || o.Pipeline > 0) {
		return &Result{NextOffset: o.Offset}, errors.New("drive: Batches excludes Delay, Timed and Pipeline")
	}
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

// driver is one run.
type driver struct {
	source  Source
	options Options
	result  *Result
	next    int // rounds of the stream that have begun, with the skipped rounds

	calls    calls
	flying   []*sent      // calls without an answer, in their order
	upcoming *flight      // was read and has not begun
	due      []*flight    // rounds whose labels are not sent, in the order of their labels
	open     int          // labels in flight
	clock    float64      // the time of the stream
	stop     error        // why no more rounds begin; io.EOF at the end of the stream
	failure  error        // of the first refused call; no call is made after it
	ahead    map[int]bool // closed rounds behind an open round
}

// flight is one round from its prediction to its outcome.
type flight struct {
	t         int
	id        string
	round     stream.Round
	predicted bool
	known     bool   // observe by the input: the server knows no prediction, or the label already
	learned   uint64 // how many observations the prediction had learned
	at        float64
	due       float64 // the time at which the label is sent
}

// sent is one call. One of the two functions waits for its answer.
type sent struct {
	*flight
	start      time.Time
	prediction func() (*hindsightv1.Prediction, error)
	outcome    func() (*hindsightv1.Outcome, error)
}

// run takes the rounds through the model.
func (d *driver) run(ctx context.Context, m *client.Model) error {
	calling := context.WithoutCancel(ctx)
	d.calls = inTurn(calling, m)
	if d.options.Pipeline > 0 {
		s := m.Session(calling, d.options.Pipeline)
		defer s.Close() //nolint:errcheck // the calls have told it
		d.calls = pipelined(calling, s)
	}
	for {
		for d.failure == nil && len(d.flying) < max(1, d.options.Pipeline) {
			call := d.choose(ctx)
			if call == nil {
				break
			}
			d.flying = append(d.flying, call)
		}
		if len(d.flying) == 0 {
			break
		}
		call := d.flying[0]
		d.flying = d.flying[1:]
		if err := d.finish(call); err != nil && d.failure == nil {
			d.failure = err
		}
	}
	if d.failure != nil {
		return d.failure
	}
	return d.ended()
}

// choose makes the next call, or returns nil if no call can be made now. A label that is due
// goes first. Where labels come late, a round begins when every label due before it is learned,
// so that its prediction is the same as in a run in turn.
func (d *driver) choose(ctx context.Context) *sent {
	if call := d.label(); call != nil {
		return call
	}
	f := d.read()
	if f != nil && d.late() {
		d.clock = max(d.clock, f.at)
		if call := d.label(); call != nil {
			return call
		}
		if d.open > 0 || len(d.due) > 0 && d.due[0].due <= d.clock {
			return nil
		}
	}
	if f != nil && ctx.Err() != nil {
		f, d.stop = nil, &interruption{ctx.Err()}
	}
	if f == nil {
		return d.label() // The end of the stream makes labels due.
	}
	return d.begin(f)
}

// interruption is the error of a run that its context ended.
type interruption struct{ cause error }

// Error implements error.
func (*interruption) Error() string { return "interrupted" }

// Unwrap returns the error of the context.
func (i *interruption) Unwrap() error { return i.cause }

// late tells whether labels come late.
func (d *driver) late() bool { return d.options.Timed || d.options.Delay > 0 }

// label sends the next label. It returns nil if none is due.
func (d *driver) label() *sent {
	if len(d.due) == 0 {
		return nil
	}
	f := d.due[0]
	if !f.predicted || f.due > d.clock && !errors.Is(d.stop, io.EOF) {
		return nil
	}
	d.due = d.due[1:]
	d.open++
	return &sent{flight: f, start: time.Now(), outcome: d.calls.observe(f.observation())}
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
	f := &flight{t: t, id: d.options.Run + "-" + strconv.Itoa(t), round: round}
	f.at, f.due = float64(t), float64(t+d.options.Delay+1)
	if d.options.Timed {
		f.at, f.due = round.Time, round.LabelTime
	}
	d.upcoming = f
	return f
}

// begin asks for the prediction of a round.
func (d *driver) begin(f *flight) *sent {
	d.upcoming = nil
	d.next++
	d.result.Rounds++
	d.clock = max(d.clock, f.at)
	if !d.options.Timed {
		d.clock = f.at + 1
	}
	if f.round.Unlabelled {
		return d.predictAlone(f)
	}
	// Labels of the same time stay in the order of their rounds.
	at, _ := slices.BinarySearchFunc(d.due, f.due, func(g *flight, due float64) int {
		if g.due <= due {
			return -1
		}
		return 1
	})
	d.due = slices.Insert(d.due, at, f)
	return &sent{flight: f, start: time.Now(), prediction: d.calls.predict(f.input(), client.PredictionID(f.id))}
}

// predictAlone asks for the prediction of a round without a label.
func (d *driver) predictAlone(f *flight) *sent {
	return &sent{flight: f, start: time.Now(), prediction: d.calls.predict(f.input(), client.WithoutLabel())}
}

// finish waits for the answer to a call.
func (d *driver) finish(c *sent) error {
	if c.outcome != nil {
		return d.observed(c)
	}
	prediction, err := c.prediction()
	switch {
	// An earlier run may have sent the label and stopped before the answer. Then Observe with
	// the input returns the first answer. If the id has another input, Observe refuses too.
	case errors.Is(err, client.ErrObservationConflict):
		c.known = true
	case err != nil:
		return fmt.Errorf("round %d: predict: %w", c.t, err)
	default:
		d.result.Predict = append(d.result.Predict, time.Since(c.start))
	}
	if c.round.Unlabelled {
		d.result.Unlabelled++
		d.pass(c.t)
		return nil
	}
	c.predicted, c.learned = true, prediction.GetStateSequence()
	return nil
}

// observed waits for the outcome of a label.
func (d *driver) observed(c *sent) error {
	d.open--
	outcome, err := c.outcome()
	if err != nil {
		return fmt.Errorf("round %d: observe: %w", c.t, err)
	}
	d.result.Observe = append(d.result.Observe, time.Since(c.start))
	if !c.known && !outcome.GetDuplicate() && outcome.GetSequence() > c.learned {
		d.result.Behind = max(d.result.Behind, int(outcome.GetSequence()-1-c.learned))
	}
	return d.acknowledge(c.flight, outcome)
}

// acknowledge adds the outcome of a round to the account.
func (d *driver) acknowledge(c *flight, outcome *hindsightv1.Outcome) error {
	r := d.result
	r.Acknowledged++
	d.pass(c.t)
	if outcome.GetDuplicate() {
		r.Duplicates++
	}
	if outcome.GetSetAside() {
		r.SetAside++
	}
	r.LossSum += outcome.GetLoss()
	if outcome.ServedLoss != nil {
		r.Served++
	}
	if judged(outcome) {
		r.judge(c.round.Class, outcome)
	}
	if d.options.OnObserved == nil {
		return nil
	}
	if err := d.options.OnObserved(Observed{T: c.t, Labels: c.round.Labels, Class: c.round.Class, Outcome: outcome}); err != nil {
		return fmt.Errorf("round %d: %w", c.t, err)
	}
	return nil
}

// judge adds the losses of a judged round, and of a class whether the prequential prediction was another.
func (r *Result) judge(class string, outcome *hindsightv1.Outcome) {
	r.Judged++
	r.JudgedLoss += outcome.GetLoss()
	if outcome.ServedLoss != nil {
		r.ServedJudged++
		r.ServedLossSum += outcome.GetServedLoss()
	}
	if class != "" {
		r.Classes++
		if outcome.GetClass() != class {
			r.Errors++
		}
	}
}

// pass closes a round.
func (d *driver) pass(t int) {
	r := d.result
	d.ahead[t] = true
	for d.ahead[r.NextOffset+1] {
		r.NextOffset++
		delete(d.ahead, r.NextOffset)
	}
}

// input is the input of a round.
func (f *flight) input() client.Input {
	if f.round.Inputs != nil {
		return client.Record(f.round.Inputs)
	}
	return client.Features(f.round.Features...)
}

// observation is the observation of a round, with the input for a server that has forgotten the
// prediction.
func (f *flight) observation() client.Observation {
	o := client.Observation{Prediction: f.id, Input: f.input()}
	if f.known {
		o.Prediction, o.ID = "", f.id
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

// calls makes calls. Its functions return a function that waits for the answer.
type calls struct {
	predict func(client.Input, client.PredictOption) func() (*hindsightv1.Prediction, error)
	observe func(client.Observation) func() (*hindsightv1.Outcome, error)
}

// inTurn makes a call when its answer is waited for.
func inTurn(ctx context.Context, m *client.Model) calls {
	return calls{
		predict: func(input client.Input, o client.PredictOption) func() (*hindsightv1.Prediction, error) {
			return func() (*hindsightv1.Prediction, error) { return m.Predict(ctx, input, o) }
		},
		observe: func(o client.Observation) func() (*hindsightv1.Outcome, error) {
			return func() (*hindsightv1.Outcome, error) { return m.Observe(ctx, o) }
		},
	}
}

// pipelined makes calls in a session.
func pipelined(ctx context.Context, s *client.Session) calls {
	return calls{
		predict: func(input client.Input, o client.PredictOption) func() (*hindsightv1.Prediction, error) {
			return later(ctx, s.Predict(ctx, input, o))
		},
		observe: func(o client.Observation) func() (*hindsightv1.Outcome, error) { return later(ctx, s.Observe(ctx, o)) },
	}
}

// later waits for a future.
func later[T any](ctx context.Context, future *client.Future[T]) func() (T, error) {
	return func() (T, error) { return future.Wait(ctx) }
}

// Latency are durations of calls.
type Latency []time.Duration

// Quantile returns the quantile q of the durations, 0 without a duration.
func (l Latency) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	rank := max(1, int(math.Ceil(q*float64(len(l)))))
	return slices.Sorted(slices.Values(l))[rank-1]
}
