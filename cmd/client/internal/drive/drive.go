// Package drive takes a stream of labelled rounds through a model: it asks for
// a prediction, learns the label, and keeps the accounts.
package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/refusal"
)

// Source yields the rounds of a stream, and io.EOF after the last.
type Source interface {
	Next() (stream.Round, error)
}

// Observed is one acknowledged observation.
type Observed struct {
	// T counts the rounds of the stream from 1, skipped ones included.
	T int
	// Labels are what was learned.
	Labels []float64
	// Outcome is the server's answer.
	Outcome *hindsightv1.Outcome
}

// Options say how a stream is taken through a model.
type Options struct {
	// Model is the model's id.
	Model string
	// Run begins the id of every prediction; the round number follows. A
	// server that has learned an id does not learn it again.
	Run string
	// Offset is how many rounds of the stream came before the first.
	Offset int
	// Pipeline is how many rounds may be in flight through one session; 0
	// takes them strictly in turn by unary calls.
	Pipeline int
	// Timeout bounds every unary call, and the wait for the next answer of a
	// session.
	Timeout time.Duration
	// Retries is how often a call is tried again in a row when no server
	// answers.
	Retries int
	// Backoff is the wait before the first retry. It doubles every time, up to
	// MaxBackoff. 0 is DefaultBackoff.
	Backoff time.Duration
	// OnObserved is told every acknowledged observation in the order of the
	// rounds; an error ends the run. It may be nil.
	OnObserved func(Observed) error
}

const (
	// DefaultBackoff is the wait before the first retry.
	DefaultBackoff = 100 * time.Millisecond
	// MaxBackoff is the longest wait before a retry.
	MaxBackoff = 5 * time.Second
)

// Result is the account of a run.
type Result struct {
	// Rounds is how many rounds were begun, Acknowledged how many of them the
	// server acknowledged as learned.
	Rounds, Acknowledged int
	// NextOffset is the offset at which the stream continues: every round
	// before it has been acknowledged.
	NextOffset int
	// Duplicates is how many observations had been learned before, Retries how
	// often calls were tried again.
	Duplicates, Retries int
	// LossSum is the sum of the prequential losses, Regret the model's after
	// the last acknowledged round.
	LossSum, Regret float64
	// Elapsed is how long the run took.
	Elapsed time.Duration
	// Predict and Observe are the latencies of the two calls.
	Predict, Observe Latency
	// RunningMean and LastLabel are simple predictors of the same labels.
	RunningMean, LastLabel Baseline
}

// MeanLoss is the mean prequential loss, 0 of nothing.
func (r *Result) MeanLoss() float64 {
	if r.Acknowledged == 0 {
		return 0
	}
	return r.LossSum / float64(r.Acknowledged)
}

// RoundsPerSecond is the rate of acknowledged rounds.
func (r *Result) RoundsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Acknowledged) / r.Elapsed.Seconds()
}

// Run takes the stream through the model until it ends. When ctx ends, the
// rounds in flight are finished first and its error is returned. The result is
// never nil: with an error it accounts for what was done.
func Run(ctx context.Context, service hindsightv1.PredictionServiceClient, source Source, o Options) (*Result, error) {
	d := &driver{
		service: service,
		source:  source,
		options: o,
		result:  &Result{NextOffset: o.Offset},
		next:    o.Offset,
	}
	if d.options.Backoff <= 0 {
		d.options.Backoff = DefaultBackoff
	}
	start := time.Now()
	var err error
	if o.Pipeline > 0 {
		err = d.pipelined(ctx)
	} else {
		err = d.inTurn(ctx)
	}
	d.result.Elapsed = time.Since(start)
	return d.result, err
}

// driver is one run.
type driver struct {
	service hindsightv1.PredictionServiceClient
	source  Source
	options Options
	result  *Result
	next    int // rounds of the stream that were begun, the offset included
}

// flight is one round from its prediction to its outcome.
type flight struct {
	t          int
	id         string
	round      stream.Round
	predicted  bool
	labels     []float64
	byFeatures bool // the server has lost the prediction
	sent       time.Time
	outcome    *hindsightv1.Outcome
	abandoned  bool
}

// begin takes the next round off the source.
func (d *driver) begin() (*flight, error) {
	round, err := d.source.Next()
	if err != nil {
		return nil, err
	}
	d.next++
	d.result.Rounds++
	return &flight{t: d.next, id: d.options.Run + "-" + strconv.Itoa(d.next), round: round}, nil
}

// predict is the call that asks for the prediction.
func (d *driver) predict(f *flight) *hindsightv1.PredictRequest {
	return &hindsightv1.PredictRequest{
		Model:        d.options.Model,
		Features:     f.round.Features,
		PredictionId: f.id,
	}
}

// observe is the call that gives the label. A server that no longer knows the
// prediction is given the features, under the same identity.
func (d *driver) observe(f *flight) *hindsightv1.ObserveRequest {
	r := &hindsightv1.ObserveRequest{
		Model: d.options.Model,
	}
	if len(f.labels) == 1 {
		r.Target = &hindsightv1.ObserveRequest_Label{Label: f.labels[0]}
	} else {
		r.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: f.labels}}
	}
	if f.byFeatures {
		r.Features, r.ObservationId = f.round.Features, f.id
	} else {
		r.PredictionId = f.id
	}
	return r
}

// served are the predicted labels, one or several.
func served(p *hindsightv1.Prediction) []float64 {
	if p.Value != nil {
		return []float64{p.GetValue()}
	}
	return p.GetValues()
}

// lost tells whether the server has lost the prediction that f observes.
func (f *flight) lost(err error) bool {
	code, _ := refusal.Code(err)
	return code == codes.NotFound && !f.byFeatures && refusal.Reason(err) == "PREDICTION_NOT_FOUND"
}

// account takes an acknowledged round into the result.
func (d *driver) account(f *flight) error {
	r := d.result
	r.Acknowledged++
	if r.NextOffset == f.t-1 {
		r.NextOffset = f.t
	}
	if f.outcome.GetDuplicate() {
		r.Duplicates++
	}
	r.LossSum += f.outcome.GetLoss()
	r.Regret = f.outcome.GetRegret()
	r.RunningMean.learnMean(f.labels)
	r.LastLabel.learnLast(f.labels)
	if d.options.OnObserved == nil {
		return nil
	}
	return d.options.OnObserved(Observed{T: f.t, Labels: f.labels, Outcome: f.outcome})
}

// inTurn finishes every round before it begins the next.
func (d *driver) inTurn(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		f, err := d.begin()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.turn(ctx, f); err != nil {
			return fmt.Errorf("round %d: %w", f.t, err)
		}
	}
}

// turn takes one round through the model.
func (d *driver) turn(ctx context.Context, f *flight) error {
	err := d.patiently(ctx, &d.result.Predict, func(ctx context.Context) error {
		answer, err := d.service.Predict(ctx, d.predict(f))
		if err == nil {
			f.labels = f.round.Labels(served(answer.GetPrediction()))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	observe := func(ctx context.Context) error {
		answer, err := d.service.Observe(ctx, d.observe(f))
		f.outcome = answer.GetOutcome()
		return err
	}
	err = d.patiently(ctx, &d.result.Observe, observe)
	if f.lost(err) {
		f.byFeatures = true
		err = d.patiently(ctx, &d.result.Observe, observe)
	}
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return d.account(f)
}

// patiently makes a call, again and again while no server answers. The call
// itself outlives ctx, whose end only ends the waiting.
func (d *driver) patiently(ctx context.Context, latency *Latency, call func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.options.Timeout)
		start := time.Now()
		err := call(bounded)
		elapsed := time.Since(start)
		cancel()
		if err == nil {
			latency.Add(elapsed)
			return nil
		}
		if !d.wait(ctx, attempt, err) {
			return err
		}
	}
}

// wait sleeps before another attempt. It tells whether there is to be one.
func (d *driver) wait(ctx context.Context, attempt int, err error) bool {
	delay, asked := refusal.RetryAfter(err)
	if attempt >= d.options.Retries || !asked && !retriable(err) {
		return false
	}
	if backoff := d.options.Backoff << min(attempt, 16); !asked || delay < 0 {
		delay = backoff
	}
	timer := time.NewTimer(min(delay, MaxBackoff))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		d.result.Retries++
		return true
	}
}

// retriable tells whether err leaves open what became of the call. An id makes
// it safe to send again.
func retriable(err error) bool {
	code, _ := refusal.Code(err)
	return refusal.Unreachable(err) || code == codes.DeadlineExceeded
}
