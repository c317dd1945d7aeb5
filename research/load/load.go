// Package load calls a server, at a rate or by a number of callers, and measures how long the
// callers wait for their answers.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/client"
	"hindsight/cmd/research/scrape"
)

// Mix says how often each kind of call is made, relative to the others.
type Mix struct {
	// Predict asks for a prediction that the server remembers.
	Predict int
	// Observe sends the label of the oldest pending prediction. If no prediction is pending,
	// Observe sends an observation with its features.
	Observe int
}

// total is the sum of the parts.
func (m Mix) total() int { return m.Predict + m.Observe }

// Options say what load is made.
type Options struct {
	Mix Mix
	// Call replaces the mix, unless it is nil. It gets a random model and a random row.
	Call func(ctx context.Context, m *client.Model, row *Row) error
	// Rate is the number of calls that begin in a second, in an open loop: call n is due
	// n/Rate seconds after the begin, whatever became of the calls before it. If Rate is 0,
	// the loop is closed: every caller makes its next call when it has the answer to the last.
	Rate float64
	// Callers is the largest number of calls in flight. In an open loop a call that is due
	// while all callers are busy waits for a caller, and its latency includes the wait.
	Callers int
	// Duration is how long calls begin. Calls bounds their number, if it is not 0.
	Duration time.Duration
	Calls    int64
	// Seed seeds the choice of models, inputs and kinds of calls.
	Seed uint64
}

// Check returns an error that says what is wrong with the options.
func (o *Options) Check() error {
	switch {
	case o.Call == nil && (min(o.Mix.Predict, o.Mix.Observe) < 0 || o.Mix.total() == 0):
		return errors.New("the mix has no calls, or a negative number of them")
	case o.Rate < 0 || o.Rate > 1e6:
		return fmt.Errorf("a rate of %g calls a second is not from 0 to 1e6", o.Rate)
	case o.Callers < 1:
		return fmt.Errorf("%d callers make no call", o.Callers)
	case o.Duration <= 0 && o.Calls <= 0:
		return errors.New("neither a duration nor a number of calls is given")
	}
	return nil
}

// Target is what the calls are made of.
type Target struct {
	// Clients are connections to the server. Callers share them.
	Clients []*client.Client
	// Models are the ids of the models.
	Models []string
	// Rows are the observations that are sent, over and over.
	Rows []Row
	// LabelTTL is how long the server waits for a label; 0 is the server's default.
	LabelTTL time.Duration
}

// Load calls a target.
type Load struct {
	Target

	pending []*pending // of each model
}

// New prepares calls of a target. New makes no call.
func New(t Target) *Load {
	l := &Load{Target: t}
	for range t.Models {
		l.pending = append(l.pending, &pending{})
	}
	return l
}

// Unsent is the reason of calls that were due in an open loop and not made, because all callers
// still waited for answers when twice the duration had passed. The latency of such a call is
// its wait until then.
const Unsent = "UNSENT"

// Run makes calls for the duration and number of the options, and waits for the answers.
// The end of ctx ends Run with an error.
func (l *Load) Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := newRecorder()
	p := &pacer{options: o, begin: time.Now()}
	var callers sync.WaitGroup
	for n := range o.Callers {
		callers.Go(func() {
			c := newCaller(l, o, n)
			for due, sent := range p.due(ctx) {
				if !sent {
					r.unsent(c.choose(), time.Since(due))
					continue
				}
				c.call(ctx, r, due)
			}
		})
	}
	callers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.result(time.Since(p.begin)), nil
}

// Measure is Run, and reads what the process of the server takes from its metrics. What a scrape takes, some
// milliseconds, is not the calls'.
func (l *Load) Measure(ctx context.Context, o Options, metrics string) (*Result, error) {
	first, err := scrape.Read(ctx, metrics)
	if err != nil {
		return nil, err
	}
	before, err := scrape.Read(ctx, metrics)
	if err != nil {
		return nil, err
	}
	r, err := l.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	after, err := scrape.Read(ctx, metrics)
	if err != nil {
		return nil, err
	}
	resident := after[scrape.ResidentBytes]
	r.ResidentBytes = &resident
	if r.Calls > 0 {
		scraped := before[scrape.CPUSeconds] - first[scrape.CPUSeconds]
		cpu := max(0, after[scrape.CPUSeconds]-before[scrape.CPUSeconds]-scraped) / float64(r.Calls)
		r.CPUSecondsPerCall = &cpu
	}
	return r, nil
}

// pacer says when calls are due.
type pacer struct {
	options Options
	begin   time.Time
	next    atomic.Int64 // the number of the next call
}

// due yields the calls of one caller, each when it is due. If sent is false, the call is too
// late to be made.
func (p *pacer) due(ctx context.Context) func(yield func(due time.Time, sent bool) bool) {
	return func(yield func(time.Time, bool) bool) {
		timer := time.NewTimer(0)
		defer timer.Stop()
		<-timer.C
		for ctx.Err() == nil {
			n := p.next.Add(1) - 1
			if p.options.Calls > 0 && n >= p.options.Calls {
				return
			}
			now := time.Now()
			due := now
			if p.options.Rate > 0 {
				due = p.begin.Add(time.Duration(float64(n) / p.options.Rate * float64(time.Second)))
			}
			limit := p.options.Duration
			if limit > 0 && due.Sub(p.begin) >= limit {
				return
			}
			if wait := due.Sub(now); wait > 0 {
				timer.Reset(wait)
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
			if !yield(due, limit <= 0 || now.Sub(p.begin) < 2*limit) {
				return
			}
		}
	}
}
