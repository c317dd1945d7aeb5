package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// The kinds of calls, by the names of a result.
const (
	predict   = "Predict"
	observe   = "Observe"
	otherCall = "Call"
)

// caller makes calls, one after the other, over one client.
type caller struct {
	load     *Load
	client   int
	random   *rand.Rand
	mix      Mix
	other    func(ctx context.Context, m *client.Model, row *Row) error
	labelTTL *durationpb.Duration
}

func newCaller(l *Load, o Options, number int) *caller {
	c := &caller{load: l, client: number % len(l.Clients), random: rand.New(rand.NewPCG(o.Seed, uint64(number))), mix: o.Mix, other: o.Call}
	if l.LabelTTL > 0 {
		c.labelTTL = durationpb.New(l.LabelTTL)
	}
	return c
}

// choose draws the kind of the next call.
func (c *caller) choose() string {
	switch {
	case c.other != nil:
		return otherCall
	case c.random.IntN(c.mix.total()) < c.mix.Predict:
		return predict
	default:
		return observe
	}
}

// call makes one call that was due at a time, and records it.
func (c *caller) call(ctx context.Context, r *recorder, due time.Time) {
	kind := c.choose()
	number := c.random.IntN(len(c.load.Models))
	p, m := c.load.pending[number], c.load.Clients[c.client].Model(c.load.Models[number])
	begin := time.Now()
	var err error
	switch kind {
	case otherCall:
		err = c.other(ctx, m, &c.load.Rows[c.random.IntN(len(c.load.Rows))])
	case predict:
		err = c.predict(ctx, m, p)
	default:
		err = c.observe(ctx, m, p)
	}
	answered := time.Now()
	if err != nil {
		r.failed(reason(err))
		return
	}
	r.answered(kind, answered.Sub(due), answered.Sub(begin))
}

// predict asks for a prediction. A later call sends its label.
func (c *caller) predict(ctx context.Context, m *client.Model, p *pending) error {
	row := c.random.IntN(len(c.load.Rows))
	of := &c.load.Rows[row]
	answer, err := m.Predict(ctx, &hindsightv1.PredictRequest{Features: of.Features, Inputs: of.Inputs, LabelTtl: c.labelTTL})
	if err == nil {
		p.add(prediction{answer.GetPredictionId(), row})
	}
	return err
}

// observe sends the label of a pending prediction, or an observation with its features.
func (c *caller) observe(ctx context.Context, m *client.Model, p *pending) error {
	oldest, ok := p.take()
	if !ok {
		oldest.row = c.random.IntN(len(c.load.Rows))
	}
	_, err := m.Observe(ctx, c.load.Rows[oldest.row].Observation(oldest.id))
	return err
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
	mu struct {
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
