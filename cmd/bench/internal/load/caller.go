package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// kind is a kind of call.
type kind int

const (
	predict kind = iota
	observe
	sessionPredict
	sessionObserve
)

// String is the name of the kind in a result.
func (k kind) String() string {
	return [...]string{"Predict", "Observe", "Session Predict", "Session Observe"}[k]
}

// random is the generator of one caller.
func random(seed uint64, caller int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(caller))) }

// caller makes calls, one after the other.
type caller struct {
	load   *Load
	number int
	random *rand.Rand
	mix    Mix
}

// choose draws the kind of the next call. A call in a session is a sessionPredict until
// its turn says otherwise.
func (c *caller) choose() kind {
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
	k := c.choose()
	number := c.random.IntN(len(c.load.models))
	m := c.load.models[number]
	if k == sessionPredict && m.turns.Add(1)%2 == 0 {
		k = sessionObserve
	}
	if c.load.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.load.Timeout)
		defer cancel()
	}
	at := c.number % len(c.load.Services)
	begun := time.Now()
	var err error
	switch k {
	case predict, sessionPredict:
		err = c.predict(ctx, m, k, at, number)
	case observe, sessionObserve:
		err = c.observe(ctx, m, k, at, number)
	}
	answered := time.Now()
	if err != nil {
		r.failed(reason(err))
		return
	}
	r.answered(k.String(), answered.Sub(due), answered.Sub(begun))
}

// predict asks for a prediction, whose label is sent by a later call.
func (c *caller) predict(ctx context.Context, m *model, k kind, service, number int) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("draw an id: %w", err)
	}
	row := c.random.IntN(len(c.load.Rows))
	request := &hindsightv1.PredictRequest{
		Model: m.id, PredictionId: id.String(), Features: c.load.Rows[row].Features, Inputs: c.load.Rows[row].Inputs,
	}
	if c.load.LabelTTL > 0 {
		request.LabelTtl = durationpb.New(c.load.LabelTTL)
	}
	if k == sessionPredict {
		err = c.load.sessions[service][number].call(ctx, &hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Predict{Predict: request}})
	} else {
		_, err = c.load.Services[service].Predict(ctx, request)
	}
	if err == nil {
		m.add(prediction{id.String(), row})
	}
	return err
}

// observe sends a label.
func (c *caller) observe(ctx context.Context, m *model, k kind, service, number int) error {
	request := &hindsightv1.ObserveRequest{Model: m.id}
	waiting, ok := m.take()
	if ok {
		request.PredictionId = waiting.id
	} else {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("draw an id: %w", err)
		}
		waiting.row = c.random.IntN(len(c.load.Rows))
		request.ObservationId = id.String()
		request.Features, request.Inputs = c.load.Rows[waiting.row].Features, c.load.Rows[waiting.row].Inputs
	}
	c.load.Rows[waiting.row].label(request)
	if k == sessionObserve {
		return c.load.sessions[service][number].call(ctx, &hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Observe{Observe: request}})
	}
	_, err := c.load.Services[service].Observe(ctx, request)
	return err
}
