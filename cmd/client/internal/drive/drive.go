// Package drive takes a stream of labelled rounds through a model. For every
// round it asks for a prediction, sends the label, and adds the outcome to the
// account.
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
	// Labels are the labels that were learned, or Class is the class.
	Labels []float64
	Class  string
	// Outcome is the server's answer.
	Outcome *hindsightv1.Outcome
}

// Options say how a stream is taken through a model.
type Options struct {
	// Model is the model's id.
	Model string
	// Run is the prefix of every prediction id; the number of the round follows.
	// A server learns an id only once.
	Run string
	// Offset is how many rounds of the stream were skipped.
	Offset int
	// Delay is how many rounds later the labels come: the label of round t is sent
	// after the prediction of round t+Delay and before that of the next one. At the
	// end of the stream the rest of the labels follow.
	Delay int
	// Pipeline is how many calls may be in flight in one session. With 0 every call
	// is unary and is answered before the next one is made.
	Pipeline int
	// Timeout bounds every unary call, and the wait for the next answer of a
	// session.
	Timeout time.Duration
	// Retries is how often a call without an answer is sent again.
	Retries int
	// Backoff is the wait before the first retry. Every further wait is twice as
	// long, at most MaxBackoff. 0 means DefaultBackoff.
	Backoff time.Duration
	// OnObserved is called for every acknowledged observation, in the order of
	// the rounds. An error ends the run. It may be nil.
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
	// Rounds is how many rounds have begun. Acknowledged is how many of them the
	// server has acknowledged.
	Rounds, Acknowledged int
	// NextOffset is the offset at which the stream continues. Every round before
	// it was acknowledged.
	NextOffset int
	// Duplicates is how many observations were learned by an earlier run or call.
	// Retries is how often calls were sent again.
	Duplicates, Retries int
	// LossSum is the sum of the prequential losses.
	LossSum float64
	// Classes is how many of the acknowledged labels were classes, Errors for how
	// many of them the prequential prediction was another class.
	Classes, Errors int
	// Elapsed is the time of the run.
	Elapsed time.Duration
	// Predict and Observe are the latencies of the two calls.
	Predict, Observe Latency
}

// MeanLoss is the mean prequential loss, 0 without a round.
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

// Run takes the stream through the model until the stream ends. When ctx ends,
// Run finishes the calls in flight, sends the labels that are due, and returns the
// error of ctx. Labels that are not due are not sent: a run that continues at
// NextOffset makes the calls that this one would have made. The result is never
// nil. With an error it covers the rounds before the error.
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
	next    int // rounds of the stream that have begun, with the skipped ones
}

// flight is one round from its prediction to its outcome.
type flight struct {
	t         int
	id        string
	round     stream.Round
	predicted bool
	labels    []float64
	byInput   bool // the server does not know the prediction any more
	sent      time.Time
	outcome   *hindsightv1.Outcome
	abandoned bool
}

// begin begins the next round of the source.
func (d *driver) begin() (*flight, error) {
	round, err := d.source.Next()
	if err != nil {
		return nil, err
	}
	d.next++
	d.result.Rounds++
	return &flight{t: d.next, id: d.options.Run + "-" + strconv.Itoa(d.next), round: round}, nil
}

// predict returns the call that asks for the prediction.
func (d *driver) predict(f *flight) *hindsightv1.PredictRequest {
	return &hindsightv1.PredictRequest{
		Model:        d.options.Model,
		Features:     f.round.Features,
		Inputs:       f.round.Inputs,
		PredictionId: f.id,
	}
}

// observe returns the call that sends the label. If the server does not know the
// prediction any more, the call has the input and the same id.
func (d *driver) observe(f *flight) *hindsightv1.ObserveRequest {
	r := &hindsightv1.ObserveRequest{
		Model: d.options.Model,
	}
	switch {
	case f.round.Class != "":
		r.Target = &hindsightv1.ObserveRequest_Class{Class: f.round.Class}
	case len(f.labels) == 1:
		r.Target = &hindsightv1.ObserveRequest_Label{Label: f.labels[0]}
	default:
		r.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: f.labels}}
	}
	if f.byInput {
		r.Features, r.Inputs, r.ObservationId = f.round.Features, f.round.Inputs, f.id
	} else {
		r.PredictionId = f.id
	}
	return r
}

// answer takes the answer to the prediction of f: nil if the label of f had been
// observed before.
func (f *flight) answer(p *hindsightv1.Prediction) {
	served := p.GetValues()
	if p != nil && p.Value != nil {
		served = []float64{p.GetValue()}
	}
	f.predicted, f.byInput = true, p == nil
	f.labels = f.round.Labels(served)
}

// observedBefore tells whether err says that a prediction id cannot be predicted.
// An earlier run may have sent its label and stopped before the answer came. Then
// Observe with the input answers what was learned. If the id stands for
// something else, Observe refuses too.
func observedBefore(err error) bool {
	return refusal.Reason(err) == "OBSERVATION_CONFLICT"
}

// lost tells whether err says that the server does not know the prediction of f.
func (f *flight) lost(err error) bool {
	code, _ := refusal.Code(err)
	return code == codes.NotFound && !f.byInput && refusal.Reason(err) == "PREDICTION_NOT_FOUND"
}

// account adds an acknowledged round to the result.
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
	if f.round.Class != "" {
		r.Classes++
		if f.outcome.GetClass() != f.round.Class {
			r.Errors++
		}
	}
	if d.options.OnObserved == nil {
		return nil
	}
	return d.options.OnObserved(Observed{T: f.t, Labels: f.labels, Class: f.round.Class, Outcome: f.outcome})
}

// inTurn makes one call after another.
func (d *driver) inTurn(ctx context.Context) error {
	var waiting []*flight // predicted rounds whose labels are not due
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		f, err := d.begin()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := d.predictNow(ctx, f); err != nil {
			return fmt.Errorf("round %d: predict: %w", f.t, err)
		}
		waiting = append(waiting, f)
		if len(waiting) <= d.options.Delay {
			continue
		}
		if err := d.observeNow(ctx, waiting[0]); err != nil {
			return err
		}
		waiting = waiting[1:]
	}
	for _, f := range waiting {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		if err := d.observeNow(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// predictNow asks for the prediction of a round.
func (d *driver) predictNow(ctx context.Context, f *flight) error {
	var prediction *hindsightv1.Prediction
	err := d.retry(ctx, &d.result.Predict, func(ctx context.Context) error {
		answer, err := d.service.Predict(ctx, d.predict(f))
		prediction = answer.GetPrediction()
		return err
	})
	if err != nil && !observedBefore(err) {
		return err
	}
	f.answer(prediction)
	return nil
}

// observeNow sends the label of a round and adds the round to the account.
func (d *driver) observeNow(ctx context.Context, f *flight) error {
	observe := func(ctx context.Context) error {
		answer, err := d.service.Observe(ctx, d.observe(f))
		f.outcome = answer.GetOutcome()
		return err
	}
	err := d.retry(ctx, &d.result.Observe, observe)
	if f.lost(err) {
		f.byInput = true
		err = d.retry(ctx, &d.result.Observe, observe)
	}
	if err != nil {
		return fmt.Errorf("round %d: observe: %w", f.t, err)
	}
	if err := d.account(f); err != nil {
		return fmt.Errorf("round %d: %w", f.t, err)
	}
	return nil
}

// retry makes a call, and sends it again while there is no answer. The end of ctx
// ends the waiting between calls. It does not end a call.
func (d *driver) retry(ctx context.Context, latency *Latency, call func(context.Context) error) error {
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

// wait waits before the next attempt. It returns false if there is none.
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

// retriable tells whether err leaves it unknown if the call had an effect. Every
// call has an id, so it is safe to send it again.
func retriable(err error) bool {
	code, _ := refusal.Code(err)
	return refusal.Unreachable(err) || code == codes.DeadlineExceeded
}
