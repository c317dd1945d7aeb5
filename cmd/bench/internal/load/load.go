// Package load makes calls of a server, by a rate or by a number of callers, and
// measures how long they wait for their answers.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// Mix says how often each kind of call is made, relative to the others.
type Mix struct {
	// Predict asks for a prediction that is remembered.
	Predict int
	// Observe sends the label of the prediction that has waited longest, or an
	// observation with its features where none waits.
	Observe int
	// Session makes a call in a session: a Predict and an Observe in turn.
	Session int
}

// total is the sum of the parts.
func (m Mix) total() int { return m.Predict + m.Observe + m.Session }

// Options say what load is made.
type Options struct {
	Mix Mix
	// Rate is how many calls are to begin in a second, in an open loop: call n is due
	// n/Rate seconds after the begin, whatever became of the calls before it. 0 is a
	// closed loop: every caller makes its next call when it has the answer to the last.
	Rate float64
	// Callers is how many calls may be in flight. In an open loop a call that is due
	// while so many are in flight waits for its caller, and its latency counts that.
	Callers int
	// Duration is how long calls begin. Calls bounds their number, if it is not 0.
	Duration time.Duration
	Calls    int64
	// Seed seeds the choice of models, inputs and kinds of calls.
	Seed uint64
}

// Check tells what is wrong with options.
func (o *Options) Check() error {
	switch {
	case min(o.Mix.Predict, o.Mix.Observe, o.Mix.Session) < 0 || o.Mix.total() == 0:
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
	// Services are connections to the server; callers share them.
	Services []hindsightv1.PredictionServiceClient
	// Models are the ids of the models.
	Models []string
	// Rows are the observations that are sent, over and over.
	Rows []Row
	// LabelTTL is how long the server waits for a label. Timeout bounds a call.
	LabelTTL, Timeout time.Duration
}

// Load makes calls of a target. Close must be called.
type Load struct {
	Target

	models   []*model
	sessions [][]*session // of each service and model
}

// New prepares calls of a target. It makes none.
func New(t Target) *Load {
	l := &Load{Target: t}
	for _, id := range t.Models {
		l.models = append(l.models, &model{id: id})
	}
	for _, service := range t.Services {
		of := make([]*session, len(t.Models))
		for i := range of {
			of[i] = &session{service: service}
		}
		l.sessions = append(l.sessions, of)
	}
	return l
}

// Close ends the sessions.
func (l *Load) Close() {
	for _, of := range l.sessions {
		for _, s := range of {
			s.close()
		}
	}
}

// Result is what came of a load.
type Result struct {
	// Elapsed is the time from the begin to the last answer.
	Elapsed time.Duration
	// Calls is how many calls were answered without an error.
	Calls int64
	// Errors counts the calls that were not, by the reason of the server, by the code
	// where it gave none, and Unsent.
	Errors map[string]int64
	// Operations are the kinds of calls that were made.
	Operations []Operation
}

// Unsent is the reason of calls that were due in an open loop and not made: when as much
// time again as the load was to take had passed, all callers still waited for answers.
// Their latencies are counted as what they had waited by then.
const Unsent = "UNSENT"

// Run makes calls until the options say that it is enough, and waits for the answers.
// An end of ctx ends it too.
func (l *Load) Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := newRecorder()
	p := &pacer{options: o, begin: time.Now()}
	var callers sync.WaitGroup
	for n := range o.Callers {
		callers.Go(func() {
			c := &caller{load: l, number: n, random: random(o.Seed, n), mix: o.Mix}
			for due, sent := range p.due(ctx) {
				if !sent {
					r.unsent(c.choose().String(), time.Since(due))
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

// pacer says when calls are due.
type pacer struct {
	options Options
	begin   time.Time
	next    atomic.Int64 // the number of the next call
}

// due yields the calls of one caller: when each is due, at the moment at which it is.
// Sent is false of a call that comes too late to be made.
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

// reason is what an error is counted under.
func reason(err error) string {
	e := client.FromError(err)
	switch {
	case e == nil && errors.Is(err, context.DeadlineExceeded):
		return "DEADLINE_EXCEEDED"
	case e == nil:
		return "UNKNOWN"
	case e.Reason != "":
		return e.Reason
	default:
		return client.CodeName(e.Code)
	}
}

// model is what is known of a model by its callers.
type model struct {
	id    string
	turns atomic.Int64 // calls in sessions
	mu    struct {
		sync.Mutex

		waiting []prediction // those whose labels were not sent, the oldest first
	}
}

// prediction is one whose label was not sent.
type prediction struct {
	id  string
	row int
}

// mostWaiting bounds the predictions that wait for their labels here. Those beyond it
// never get one.
const mostWaiting = 1 << 16

// add adds a prediction.
func (m *model) add(p prediction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting) < mostWaiting {
		m.mu.waiting = append(m.mu.waiting, p)
	}
}

// take takes the oldest prediction.
func (m *model) take() (p prediction, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting) == 0 {
		return p, false
	}
	p = m.mu.waiting[0]
	m.mu.waiting = m.mu.waiting[1:]
	if len(m.mu.waiting) == 0 {
		m.mu.waiting = slices.Clip(m.mu.waiting)
	}
	return p, true
}
