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
// together. Calls whose answers the client does not read stop the reading. When
// the server drains, what was read is answered and the session ends with
// SHUTTING_DOWN, and when memory is full with OVERLOADED.
func (p *predictions) Session(stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse]) error {
	requests := p.receive(stream)
	answers := make(chan sessionAnswer, p.sessionCalls)
	over := overOf(stream.Context())
	var ending error
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error {
		defer close(answers)
		for {
			var r sessionRequest
			select {
			case r = <-requests:
			case <-p.draining:
				ending = engine.ErrClosed
				return nil
			case <-over:
				ending = errMemoryFull
				return nil
			case <-ctx.Done():
				return nil // The sender has failed and says why.
			}
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			if r.err != nil {
				return fmt.Errorf("rpc: session: %w", r.err)
			}
			select {
			case answers <- p.begin(ctx, r.request):
			case <-ctx.Done():
				return nil // The sender has failed and says why.
			}
		}
	})
	group.Go(func() error { return send(ctx, stream, answers) })
	if err := group.Wait(); err != nil {
		return err //nolint:wrapcheck // Wrapped above.
	}
	return ending
}

// send answers calls in their order, waiting for those that are not answered
// yet.
func send(
	ctx context.Context, stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse],
	answers <-chan sessionAnswer,
) error {
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
}

// sessionRequest is a request of a session, or why there is none any more.
type sessionRequest struct {
	request *hindsightv1.SessionRequest
	err     error
}

// receive reads the requests of a stream. A read only ends with the stream, at
// the latest when the session has returned, so that Drain joins it.
func (p *predictions) receive(stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse]) <-chan sessionRequest {
	requests := make(chan sessionRequest)
	p.receivers.Go(func() {
		for {
			r, err := stream.Recv()
			select {
			case requests <- sessionRequest{r, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return requests
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
