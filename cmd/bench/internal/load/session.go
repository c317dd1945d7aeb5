package load

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// session is the session of one model over one connection. Its callers share it. The
// first call begins a stream, and so does the first one after a stream was lost.
type session struct {
	service hindsightv1.PredictionServiceClient

	// sending is held while a call is sent, so that answers come in the order of flying.
	sending sync.Mutex
	stream  *stream
	next    uint64
}

// stream is one stream of a session.
type stream struct {
	calls  hindsightv1.PredictionService_SessionClient
	cancel context.CancelFunc
	// flying has the calls without an answer, in the order of their answers.
	flying chan chan<- error
	// done is closed when no more answers come; err says why.
	done chan struct{}
	err  error
}

// mostFlying bounds the calls of a stream without an answer.
const mostFlying = 1 << 14

// errTurn is an answer to another call than the next.
var errTurn = errors.New("the server answers out of turn")

// call makes a call and waits for its answer.
func (s *session) call(ctx context.Context, request *hindsightv1.SessionRequest) error {
	answer := make(chan error, 1)
	if err := s.send(ctx, request, answer); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a call, whose answer comes in a channel.
func (s *session) send(ctx context.Context, request *hindsightv1.SessionRequest, answer chan<- error) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.stream != nil {
		select {
		case <-s.stream.done:
			s.stream.cancel()
			s.stream = nil
		default:
		}
	}
	if s.stream == nil {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	request.CorrelationId = s.next
	s.next++
	select {
	case s.stream.flying <- answer:
	case <-s.stream.done:
		return s.stream.err
	}
	if s.stream.calls.Send(request) != nil {
		<-s.stream.done // It says why, and fails what was flying.
	}
	return nil
}

// begin begins a stream, which outlives the call that needs it.
func (s *session) begin(ctx context.Context) error {
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	calls, err := s.service.Session(alive)
	if err != nil {
		cancel()
		return err
	}
	s.stream = &stream{calls: calls, cancel: cancel, flying: make(chan chan<- error, mostFlying), done: make(chan struct{})}
	go s.stream.receive(s.next)
	return nil
}

// receive hands out answers until the stream ends.
func (s *stream) receive(next uint64) {
	defer s.fail()
	for ; ; next++ {
		answer, err := s.calls.Recv()
		switch {
		case errors.Is(err, io.EOF):
			s.err = status.Error(codes.Unavailable, "the server ended the session")
			return
		case err != nil:
			s.err = err
			return
		case answer.GetCorrelationId() != next:
			s.err = errTurn
			return
		}
		<-s.flying <- status.ErrorProto(answer.GetError())
	}
}

// fail fails what was flying when the stream ended.
func (s *stream) fail() {
	close(s.done)
	s.cancel()
	for {
		select {
		case answer := <-s.flying:
			answer <- s.err
		default:
			return
		}
	}
}

// close ends the session. No call is made any more.
func (s *session) close() {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.stream == nil {
		return
	}
	s.stream.cancel()
	<-s.stream.done
}
