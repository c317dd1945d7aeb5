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
)

// pipeline keeps several rounds in flight. When a session breaks, the next
// session sends its open rounds again, with the same ids and in the same order.
type pipeline struct {
	*driver
	flights []*flight // the rounds that are not accounted for, in their order
	stop    error     // why no more rounds begin; io.EOF at the end of the stream
	refusal error     // of the first refused round; later rounds are not learned
}

// pipelined takes the rounds through sessions, with up to Options.Pipeline calls
// in flight. The server answers the calls in their order. Every label is sent after
// the answer to its prediction, so labels are learned in the order of the rounds.
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

// session runs one session until no round is in flight and no more will begin.
func (p *pipeline) session(ctx context.Context) error {
	// Outcomes may have come at the end of the session before.
	if err := p.accountDone(); err != nil {
		return err
	}
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s := &session{
		pipeline: p,
		predict:  p.result.NextOffset + 1,
		label:    p.result.NextOffset + 1,
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
	answers  chan *hindsightv1.SessionResponse // has room for every call in flight
	ended    chan struct{}                     // closed after failure is set
	failure  error
	expected []uint64 // correlation ids, in the order of their answers
	watchdog *time.Timer
	late     atomic.Bool // the watchdog has ended the stream

	// The next round to predict and the next round whose label is to be sent. All
	// rounds before them had that in this session, or did not need it.
	predict, label int
}

// receive passes the answers on until the stream ends. It never blocks if the
// server follows the protocol.
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

// run makes the calls of the rounds in flight again, then those of new rounds.
func (s *session) run(ctx context.Context) error {
	for {
		if err := s.fill(ctx); err != nil {
			return err
		}
		if len(s.expected) == 0 {
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

// fill makes calls until enough are in flight or none is to be made now. After a
// refusal it makes none.
func (s *session) fill(ctx context.Context) error {
	for s.refusal == nil && len(s.expected) < s.options.Pipeline {
		f := s.due(ctx)
		if f == nil {
			return nil
		}
		if err := s.send(f); err != nil {
			return err
		}
	}
	return nil
}

// due returns the round whose call is next, nil if none is to be made now. A label
// that is due goes first. With a delay a round begins only when every label that
// was due before it is learned: its prediction is that of a run in turn.
func (s *session) due(ctx context.Context) *flight {
	for f := s.flight(s.label); f != nil && f.outcome != nil; f = s.flight(s.label) {
		s.label++ // Its answer came in an earlier session.
	}
	for f := s.flight(s.predict); f != nil && f.predicted; f = s.flight(s.predict) {
		s.predict++
	}
	if f := s.labelled(); f != nil {
		return f
	}
	f := s.flight(s.predict)
	if f == nil && (s.options.Delay == 0 || len(s.flights) <= s.options.Delay) {
		f = s.beginNext(ctx)
	}
	if f == nil {
		return s.labelled() // The end of the stream makes labels due.
	}
	s.predict++
	return f
}

// labelled returns the round whose label is next, nil if none is due.
func (s *session) labelled() *flight {
	f := s.flight(s.label)
	switch {
	case f == nil, !f.predicted:
		return nil
	case s.options.Delay == 0, s.predict > s.label+s.options.Delay, s.predict > s.next && errors.Is(s.stop, io.EOF):
		s.label++
		return f
	default:
		return nil
	}
}

// flight returns the round t if it is in flight.
func (s *session) flight(t int) *flight {
	if len(s.flights) == 0 || t < s.flights[0].t || t > s.next {
		return nil
	}
	return s.flights[t-s.flights[0].t]
}

// beginNext begins a round. If there is none, or ctx has ended, the round is nil
// and stop says why.
func (s *session) beginNext(ctx context.Context) (f *flight) {
	if s.stop != nil {
		return nil
	}
	if s.stop = ctx.Err(); s.stop != nil {
		s.stop = fmt.Errorf("interrupted: %w", s.stop)
		return nil
	}
	if f, s.stop = s.begin(); s.stop != nil {
		return nil
	}
	s.flights = append(s.flights, f)
	return f
}

// send sends the next call of f: first for the prediction, then with the label.
func (s *session) send(f *flight) error {
	request := &hindsightv1.SessionRequest{CorrelationId: uint64(f.t) << 1}
	if f.predicted {
		request.CorrelationId |= 1
		request.Call = &hindsightv1.SessionRequest_Observe{Observe: s.observe(f)}
	} else {
		request.Call = &hindsightv1.SessionRequest_Predict{Predict: s.driver.predict(f)}
	}
	f.sent = time.Now()
	if err := s.calls.Send(request); err != nil {
		return s.broken()
	}
	s.expected = append(s.expected, request.GetCorrelationId())
	return nil
}

// broken returns why the stream has ended.
func (s *session) broken() error {
	s.drain()
	if err := s.accountDone(); err != nil {
		return err
	}
	if errors.Is(s.failure, io.EOF) {
		return status.Error(codes.Unavailable, "the server ended the session")
	}
	return s.named(s.failure)
}

// drain waits until receive has ended. Outcomes that came before its end count.
// The calls of other answers are sent again.
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

// named returns the timeout if it has ended the stream, else err.
func (s *session) named(err error) error {
	if s.late.Load() {
		return status.Error(codes.DeadlineExceeded, "no answer in time")
	}
	return err
}

// handle handles one answer.
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
		s.result.Predict.Add(time.Since(f.sent))
		f.answer(body.Prediction)
		return nil
	case *hindsightv1.SessionResponse_Outcome:
		if !observed {
			return status.Error(codes.Internal, "the session answered a prediction with an outcome")
		}
		s.result.Observe.Add(time.Since(f.sent))
		f.outcome = body.Outcome
		return s.accountDone()
	default:
		return s.refused(f, status.ErrorProto(answer.GetError()))
	}
}

// refused handles the server's refusal of a call.
func (s *session) refused(f *flight, err error) error {
	switch {
	case !f.predicted && observedBefore(err):
		f.answer(nil)
		return nil
	case f.predicted && f.lost(err):
		f.byInput = true
		return s.send(f)
	case retriable(err):
		return err // A new session begins.
	}
	f.abandoned = true
	call := "predict"
	if f.predicted {
		call = "observe"
	}
	if s.refusal == nil {
		s.refusal = fmt.Errorf("round %d: %s: %w", f.t, call, err)
	}
	return s.accountDone()
}

// accountDone accounts for the finished rounds at the front.
func (p *pipeline) accountDone() error {
	for len(p.flights) > 0 {
		f := p.flights[0]
		if f.outcome == nil && !f.abandoned {
			return nil
		}
		p.flights = p.flights[1:]
		if f.abandoned {
			continue
		}
		if err := p.account(f); err != nil {
			return err
		}
	}
	return nil
}
