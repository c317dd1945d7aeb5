package drive

import (
	"context"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// calls makes calls. What its functions return waits for the answer.
type calls struct {
	predict func(input client.Input, o client.PredictOption) func() (*hindsightv1.Prediction, error)
	observe func(o client.Observation) func() (*hindsightv1.Outcome, error)
}

// inTurn makes a call when its answer is waited for.
func inTurn(ctx context.Context, m *client.Model) calls {
	return calls{
		predict: func(input client.Input, o client.PredictOption) func() (*hindsightv1.Prediction, error) {
			return func() (*hindsightv1.Prediction, error) {
				return m.Predict(ctx, input, o)
			}
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
			future := s.Predict(ctx, input, o)
			return func() (*hindsightv1.Prediction, error) { return future.Wait(ctx) }
		},
		observe: func(o client.Observation) func() (*hindsightv1.Outcome, error) {
			future := s.Observe(ctx, o)
			return func() (*hindsightv1.Outcome, error) { return future.Wait(ctx) }
		},
	}
}
