package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// The names of spans.
const (
	sessionCall    = "hindsight.v1.PredictionService/Session"
	sessionPredict = sessionCall + "/Predict"
	sessionObserve = sessionCall + "/Observe"
)

// sessionAnswer is an unsent answer.
type sessionAnswer struct {
	response *hindsightv1.SessionResponse
	// send waits for the observation if it has a ticket.
	observation submitted
	// relay receives the answer, unless it is nil.
	relay *relay
	// model chooses the group of the call.
	model string
	// span is that of the call. It ends with the answer.
	span trace.Span
}

// Session answers the calls of a stream in their order. A Predict is answered from the state at
// its turn. An Observe is queued at its turn and the sender waits for it, so that the
// observations of a session become durable together. Reading pauses while sessionCalls answers
// are unsent. When the server drains, Session answers the calls that it has read, and ends with
// SHUTTING_DOWN.
func (p *predictions) Session(stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse]) error {
	requests := p.receive(stream)
	answers := make(chan sessionAnswer, p.sessionCalls)
	draining := false
	owners := relays{}
	defer owners.end()
	group, ctx := errgroup.WithContext(stream.Context())
	group.Go(func() error {
		defer close(answers)
		for {
			var r sessionRequest
			select {
			case r = <-requests:
			case <-p.draining:
				draining = true
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
			case answers <- p.begin(ctx, r.request, owners):
			case <-ctx.Done():
				return nil // The sender has failed and says why.
			}
		}
	})
	group.Go(func() error { return p.send(ctx, stream, answers) })
	if err := group.Wait(); err != nil || !draining {
		return err
	}
	return engine.ErrClosed
}

// send sends the answers in their order.
func (p *predictions) send(
	ctx context.Context, stream grpc.BidiStreamingServer[hindsightv1.SessionRequest, hindsightv1.SessionResponse],
	answers <-chan sessionAnswer,
) error {
	for a := range answers {
		if a.relay != nil {
			response, err := a.relay.receive()
			switch {
			case err != nil:
				a.response.Answer = p.refusalAnswer(err)
			case response.GetError() != nil:
				err = status.ErrorProto(response.GetError())
				p.refusals.count(status.Convert(err))
				fallthrough
			default:
				a.response = response
			}
			end(a.span, err)
		}
		if a.observation.ticket != nil {
			outcome, err := a.observation.wait(trace.ContextWithSpan(ctx, a.span))
			if err != nil {
				a.response.Answer = p.refusalAnswer(p.named(a.model, err))
			} else {
				a.response.Answer = &hindsightv1.SessionResponse_Outcome{Outcome: outcome}
			}
			end(a.span, err)
		}
		if err := stream.Send(a.response); err != nil {
			return fmt.Errorf("rpc: session: %w", err)
		}
	}
	return nil
}

// sessionRequest is a request of a session, or the error that ends its reading.
type sessionRequest struct {
	request *hindsightv1.SessionRequest
	err     error
}

// receive reads the requests of a stream in its own goroutine, because a read cannot be
// interrupted. The goroutine ends with the stream, perhaps after Session has returned. Drain
// waits for it.
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

// begin answers a Predict, queues an Observe, or passes a call to the owner of its group.
func (p *predictions) begin(session context.Context, r *hindsightv1.SessionRequest, owners relays) sessionAnswer {
	a := sessionAnswer{response: &hindsightv1.SessionResponse{CorrelationId: r.GetCorrelationId()}}
	var err error
	ctx := session
	switch call := r.GetCall().(type) {
	case *hindsightv1.SessionRequest_Predict:
		ctx, a.span = p.tracing.call(ctx, sessionPredict, call.Predict)
		a.model = call.Predict.GetModel()
		var prediction *hindsightv1.Prediction
		if err = p.access.message(ctx, hindsightv1.PredictionService_Predict_FullMethodName, call.Predict); err != nil {
			break
		}
		if a.relay, err = p.forward.session(session, p.groups.Of(a.model), hindsightv1.PredictionService_Predict_FullMethodName, call.Predict, r, owners); err != nil || a.relay != nil {
			break
		}
		if prediction, err = p.predict(ctx, call.Predict); err == nil {
			a.response.Answer = &hindsightv1.SessionResponse_Prediction{Prediction: prediction}
		}
	case *hindsightv1.SessionRequest_Observe:
		ctx, a.span = p.tracing.call(ctx, sessionObserve, call.Observe)
		a.model = call.Observe.GetModel()
		if err = p.access.message(ctx, hindsightv1.PredictionService_Observe_FullMethodName, call.Observe); err != nil {
			break
		}
		if a.relay, err = p.forward.session(session, p.groups.Of(a.model), hindsightv1.PredictionService_Observe_FullMethodName, call.Observe, r, owners); err != nil || a.relay != nil {
			break
		}
		a.observation, err = p.submit(ctx, call.Observe)
	default:
		_, a.span = p.tracing.call(ctx, sessionCall, nil)
		err = &model.FieldError{
			Field: "call", Err: engine.ErrInvalidRequest, Got: "nothing", Want: "predict or observe",
		}
	}
	if err != nil {
		a.response.Answer = p.refusalAnswer(p.named(a.model, err))
	}
	if a.observation.ticket == nil && a.relay == nil {
		end(a.span, err)
	}
	return a
}

// named is the error of a call of a session. It names the owner of the model's group after
// ErrNotOwner.
func (p *predictions) named(name string, err error) error {
	return p.forward.named(p.groups.Of(name), p.forward.absent(err))
}

func (p *predictions) refusalAnswer(err error) *hindsightv1.SessionResponse_Error {
	s := statusOf(err)
	p.refusals.count(s)
	return &hindsightv1.SessionResponse_Error{Error: s.Proto()}
}
