package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// The kinds of calls, by the names of a result.
const (
	predict        = "Predict"
	observe        = "Observe"
	sessionPredict = "Session Predict"
	sessionObserve = "Session Observe"
	otherCall      = "Call"
)

// caller makes calls, one after the other, over one client.
type caller struct {
	load    *Load
	client  int
	random  *rand.Rand
	mix     Mix
	other   func(ctx context.Context, m *client.Model, row *Row) error
	options []client.PredictOption
}

func newCaller(l *Load, o Options, number int) *caller {
	c := &caller{load: l, client: number % len(l.Clients), random: rand.New(rand.NewPCG(o.Seed, uint64(number))), mix: o.Mix, other: o.Call}
	if l.LabelTTL > 0 {
		c.options = append(c.options, client.LabelTTL(l.LabelTTL))
	}
	return c
}

// choose draws the kind of the next call. A call in a session is a sessionPredict until its
// turn is known.
func (c *caller) choose() string {
	if c.other != nil {
		return otherCall
	}
	switch n := c.random.IntN(c.mix.total()); {
	case n < c.mix.Predict:
		return predict
	case n < c.mix.Predict+c.mix.Observe:
		return observe
	default:
		return sessionPredict
	}
}

// call makes one call that was due at a time, and records it.
func (c *caller) call(ctx context.Context, r *recorder, due time.Time) {
	kind := c.choose()
	number := c.random.IntN(len(c.load.Models))
	p, s := c.load.pending[number], c.load.sessions[c.client][number]
	if kind == sessionPredict && p.turns.Add(1)%2 == 0 {
		kind = sessionObserve
	}
	begin := time.Now()
	var err error
	switch kind {
	case otherCall:
		err = c.other(ctx, s.model, &c.load.Rows[c.random.IntN(len(c.load.Rows))])
	case predict, sessionPredict:
		err = c.predict(ctx, s, p, kind)
	default:
		err = c.observe(ctx, s, p, kind)
	}
	answered := time.Now()
	if err != nil {
		r.failed(reason(err))
		return
	}
	r.answered(kind, answered.Sub(due), answered.Sub(begin))
}

// predict asks for a prediction. A later call sends its label.
func (c *caller) predict(ctx context.Context, s *session, p *pending, kind string) (err error) {
	row := c.random.IntN(len(c.load.Rows))
	input := c.load.Rows[row].Input()
	var answer *hindsightv1.Prediction
	if kind == predict {
		answer, err = s.model.Predict(ctx, input, c.options...)
	} else {
		err = s.do(ctx, func(open *client.Session) (err error) {
			answer, err = open.Predict(ctx, input, c.options...).Wait(ctx)
			return err
		})
	}
	if err == nil {
		p.add(prediction{answer.GetPredictionId(), row})
	}
	return err
}

// observe sends the label of a pending prediction, or an observation with its features.
func (c *caller) observe(ctx context.Context, s *session, p *pending, kind string) (err error) {
	var o client.Observation
	if oldest, ok := p.take(); ok {
		o = client.ByPrediction(oldest.id, c.load.Rows[oldest.row].Target())
	} else {
		row := &c.load.Rows[c.random.IntN(len(c.load.Rows))]
		o = client.ByInput(row.Input(), row.Target())
	}
	if kind == observe {
		_, err = s.model.Observe(ctx, o)
		return err
	}
	return s.do(ctx, func(open *client.Session) error {
		_, err := open.Observe(ctx, o).Wait(ctx)
		return err
	})
}

// reason returns the word that an error is counted under.
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

// prediction is a prediction whose label was not sent.
type prediction struct {
	id  string
	row int
}

// mostPending bounds the pending predictions of a model. Later ones never get a label.
const mostPending = 1 << 16

// pending is the queue of the pending predictions of a model.
type pending struct {
	turns atomic.Int64 // calls in sessions
	mu    struct {
		sync.Mutex

		oldestFirst []prediction
	}
}

func (q *pending) add(p prediction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.oldestFirst) < mostPending {
		q.mu.oldestFirst = append(q.mu.oldestFirst, p)
	}
}

// take takes the oldest prediction.
func (q *pending) take() (p prediction, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.oldestFirst) == 0 {
		return p, false
	}
	p = q.mu.oldestFirst[0]
	q.mu.oldestFirst = q.mu.oldestFirst[1:]
	return p, true
}

// window is the largest number of calls in flight in a session.
const window = 1 << 14

// session is the session of one model over one client. Callers share it.
type session struct {
	model *client.Model
	mu    sync.Mutex
	open  *client.Session // nil before the first call, and after the session was lost
}

// do makes a call in the session. The first call begins the session, and so does the first
// call after the session was lost.
func (s *session) do(ctx context.Context, call func(*client.Session) error) error {
	s.mu.Lock()
	if s.open == nil {
		s.open = s.model.Session(context.WithoutCancel(ctx), window)
	}
	open := s.open
	s.mu.Unlock()
	err := call(open)
	if e := client.FromError(err); err != nil && (e == nil || e.Reason == "") {
		s.end(open) // Only a refusal of the server has a reason: the session was lost.
	}
	return err
}

// end closes a session of this model, which may be nil.
func (s *session) end(open *client.Session) {
	s.mu.Lock()
	if s.open == open {
		s.open = nil
	}
	s.mu.Unlock()
	if open != nil {
		_ = open.Close() // The error of a lost session is that of its calls.
	}
}
