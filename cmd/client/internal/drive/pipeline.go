package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/refusal"
)

// pipeline keeps several rounds in flight. It outlives sessions: the rounds
// that a broken one leaves open are sent again through the next, under the
// same ids and in the same order.
type pipeline struct {
	*driver
	flights []*flight // begun, not accounted for; in the order of the rounds
	stop    error     // why no more rounds are begun; io.EOF at the end
	refusal error     // the first round that was refused; later ones are not learned
}

// pipelined takes the rounds through sessions, up to Options.Pipeline at a
// time. Predictions are answered in the order of the rounds and every label
// follows its prediction, so that the labels are learned in that order too.
func (d *driver) pipelined(ctx context.Context) error {
	p := &pipeline{driver: d}
	for attempt := 0; ; attempt++ {
		done := d.result.Acknowledged
		err := p.session(ctx)
		if err == nil {
			break
		}
		if d.result.Acknowledged > done {
			attempt = 0
		}
		if !d.wait(ctx, attempt, err) {
			return fmt.Errorf("round %d: %w", d.result.NextOffset+1, err)
		}
	}
	switch {
	case p.refusal != nil:
		return p.refusal
	case errors.Is(p.stop, io.EOF):
		return nil
	default:
		return p.stop
	}
}

// session runs one session until nothing is in flight and no more is to come.
func (p *pipeline) session(ctx context.Context) error {
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s := &session{
		pipeline: p,
		answers:  make(chan *hindsightv1.SessionResponse, p.options.Pipeline),
		ended:    make(chan struct{}),
	}
	s.watchdog = time.AfterFunc(p.options.Timeout, func() {
		s.late.Store(true)
		cancel()
	})
	defer s.watchdog.Stop()
	calls, err := p.service.Session(alive)
	if err != nil {
		return s.named(err)
	}
	s.calls = calls
	go s.receive()
	if err = s.run(ctx); err == nil {
		err = calls.CloseSend()
	}
	if err != nil {
		cancel()
	}
	s.drain()
	return err
}

// session is one stream of calls and answers.
type session struct {
	*pipeline
	calls    hindsightv1.PredictionService_SessionClient
	answers  chan *hindsightv1.SessionResponse // one place for every flight
	ended    chan struct{}                     // closed after failure is set
	failure  error
	expected []uint64 // correlation ids, in the order in which answers come
	watchdog *time.Timer
	late     atomic.Bool // the watchdog has ended the stream
}

// receive passes the answers on until the stream ends. There is at most one
// unanswered call a flight, so a server that keeps to the protocol never waits
// for the reader of answers.
func (s *session) receive() {
	defer close(s.ended)
	defer close(s.answers)
	for {
		answer, err := s.calls.Recv()
		if err != nil {
			s.failure = err
			return
		}
		s.answers <- answer
	}
}

// run sends again what is in flight, then takes round after round.
func (s *session) run(ctx context.Context) error {
	for _, f := range s.flights {
		if f.outcome != nil || f.abandoned {
			continue
		}
		if err := s.send(f); err != nil {
			return err
		}
	}
	for {
		if err := s.fill(ctx); err != nil {
			return err
		}
		if len(s.flights) == 0 {
			return nil
		}
		answer, open := <-s.answers
		if !open {
			return s.broken()
		}
		s.watchdog.Reset(s.options.Timeout)
		if err := s.handle(answer); err != nil {
			return err
		}
	}
}

// fill begins rounds until enough are in flight.
func (s *session) fill(ctx context.Context) error {
	for s.stop == nil && s.refusal == nil && len(s.flights) < s.options.Pipeline {
		f := s.next(ctx)
		if f == nil {
			break // The rounds in flight end first.
		}
		s.flights = append(s.flights, f)
		if err := s.send(f); err != nil {
			return err
		}
	}
	return nil
}

// next begins a round. It is nil, and stop says why, when there is none or the
// caller has had enough.
func (s *session) next(ctx context.Context) (f *flight) {
	if s.stop = ctx.Err(); s.stop != nil {
		s.stop = fmt.Errorf("interrupted: %w", s.stop)
		return nil
	}
	if f, s.stop = s.begin(); s.stop != nil {
		return nil
	}
	return f
}

// send sends the call that f waits for: the prediction, or then the label.
func (s *session) send(f *flight) error {
	request := &hindsightv1.SessionRequest{CorrelationId: uint64(f.t) << 1}
	if f.predicted {
		request.CorrelationId |= 1
		request.Call = &hindsightv1.SessionRequest_Observe{Observe: s.observe(f)}
	} else {
		request.Call = &hindsightv1.SessionRequest_Predict{Predict: s.predict(f)}
	}
	f.sent = time.Now()
	if err := s.calls.Send(request); err != nil {
		return s.broken()
	}
	s.expected = append(s.expected, request.GetCorrelationId())
	return nil
}

// broken waits for the reader to say why the stream has ended.
func (s *session) broken() error {
	s.drain()
	if err := s.settle(); err != nil {
		return err
	}
	if errors.Is(s.failure, io.EOF) {
		return status.Error(codes.Unavailable, "the server ended the session")
	}
	return s.named(s.failure)
}

// drain waits until the reader has ended. Outcomes that came before it did
// count; other answers are asked for again.
func (s *session) drain() {
	for answer := range s.answers {
		if outcome := answer.GetOutcome(); outcome != nil && len(s.flights) > 0 {
			at := int(answer.GetCorrelationId()>>1) - s.flights[0].t
			if at >= 0 && at < len(s.flights) {
				s.flights[at].outcome = outcome
			}
		}
	}
	<-s.ended
}

// named names the timeout when it was what ended the stream.
func (s *session) named(err error) error {
	if s.late.Load() {
		return status.Error(codes.DeadlineExceeded, "no answer in time")
	}
	return err
}

// handle takes one answer.
func (s *session) handle(answer *hindsightv1.SessionResponse) error {
	if len(s.expected) == 0 || s.expected[0] != answer.GetCorrelationId() {
		return status.Errorf(codes.Internal, "the session answered call %d out of turn", answer.GetCorrelationId())
	}
	s.expected = s.expected[1:]
	f := s.flights[int(answer.GetCorrelationId()>>1)-s.flights[0].t]
	observed := answer.GetCorrelationId()&1 == 1
	switch body := answer.GetAnswer().(type) {
	case *hindsightv1.SessionResponse_Prediction:
		if observed {
			return status.Error(codes.Internal, "the session answered an observation with a prediction")
		}
		return s.predicted(f, body.Prediction)
	case *hindsightv1.SessionResponse_Outcome:
		if !observed {
			return status.Error(codes.Internal, "the session answered a prediction with an outcome")
		}
		s.result.Observe.Add(time.Since(f.sent))
		f.outcome = body.Outcome
		return s.settle()
	default:
		return s.refused(f, refusal.FromSession(answer.GetError()))
	}
}

// predicted gives the label of a prediction.
func (s *session) predicted(f *flight, p *hindsightv1.Prediction) error {
	s.result.Predict.Add(time.Since(f.sent))
	f.predicted = true
	f.labels = f.round.Labels(served(p))
	if s.refusal != nil {
		f.abandoned = true
		return s.settle()
	}
	return s.send(f)
}

// refused takes the server's refusal of a call.
func (s *session) refused(f *flight, err error) error {
	switch {
	case f.predicted && f.lost(err):
		f.byFeatures = true
		return s.send(f)
	case retriable(err):
		return err // begin a new session
	}
	f.abandoned = true
	call := "predict"
	if f.predicted {
		call = "observe"
	}
	if s.refusal == nil {
		s.refusal = fmt.Errorf("round %d: %s: %w", f.t, call, err)
	}
	return s.settle()
}

// settle accounts for the rounds at the front that are done.
func (s *session) settle() error {
	for len(s.flights) > 0 {
		f := s.flights[0]
		if f.outcome == nil && !f.abandoned {
			return nil
		}
		s.flights = s.flights[1:]
		if f.abandoned {
			continue
		}
		if err := s.account(f); err != nil {
			return err
		}
	}
	return nil
}
