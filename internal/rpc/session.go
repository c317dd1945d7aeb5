package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// sessionAnswer is a call of a session on its way to its answer.
type sessionAnswer struct {
	response *hindsightv1.SessionResponse
	// ticket is waited for when it is not nil.
	ticket *engine.Ticket
}

// Session answers the calls of a stream in their order. A Predict is answered
// from the state at its turn; an Observe is queued at its turn and waited for
// by the sender, so that the observations of one session become durable
// together. Calls whose answers the client does not read stop the reading.
func (p *predictions) Session(stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse]) error {
	answers := make(chan sessionAnswer, p.sessionCalls)
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error {
		defer close(answers)
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("rpc: session: %w", err)
			}
			select {
			case answers <- p.begin(ctx, r):
			case <-ctx.Done():
				return nil // The sender has failed and says why.
			}
		}
	})
	group.Go(func() error {
		for a := range answers {
			if a.ticket != nil {
				outcomes, err := a.ticket.Wait(ctx)
				if err != nil {
					a.response.Answer = refusalAnswer(alone(err))
				} else {
					a.response.Answer = &hindsightv1.SessionResponse_Outcome{Outcome: outcomeToProto(outcomes[0])}
				}
			}
			if err := stream.Send(a.response); err != nil {
				return fmt.Errorf("rpc: session: %w", err)
			}
		}
		return nil
	})
	return group.Wait() //nolint:wrapcheck // Wrapped above.
}

// begin does what a call can do at its turn.
func (p *predictions) begin(ctx context.Context, r *hindsightv1.SessionRequest) sessionAnswer {
	a := sessionAnswer{response: &hindsightv1.SessionResponse{CorrelationId: r.GetCorrelationId()}}
	var err error
	switch call := r.GetCall().(type) {
	case *hindsightv1.SessionRequest_Predict:
		var prediction *hindsightv1.Prediction
		if prediction, err = p.predict(ctx, call.Predict); err == nil {
			a.response.Answer = &hindsightv1.SessionResponse_Prediction{Prediction: prediction}
		}
	case *hindsightv1.SessionRequest_Observe:
		a.ticket, err = p.submit(ctx, call.Observe)
	default:
		err = &model.FieldError{
			Field: "call", Err: engine.ErrInvalidRequest, Got: "nothing", Want: "predict or observe",
		}
	}
	if err != nil {
		a.response.Answer = refusalAnswer(err)
	}
	return a
}

func refusalAnswer(err error) *hindsightv1.SessionResponse_Error {
	s := statusOf(err)
	return &hindsightv1.SessionResponse_Error{Error: &hindsightv1.SessionError{
		Code: int32(s.Code()), Message: s.Message(), Reason: reasonOf(s),
	}}
}
