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

// pipeline keeps several rounds in flight. When a session breaks, the next
// session sends its open rounds again, with the same ids and in the same order.
type pipeline struct {
	*driver
	flights []*flight // the rounds that are not accounted for, in their order
	stop    error     // why no more rounds begin; io.EOF at the end of the stream
	refusal error     // of the first refused round; later rounds are not learned
}

// pipelined takes the rounds through sessions, up to Options.Pipeline at a
// time. The server answers predictions in the order of the rounds, and every
// label is sent after its prediction. So labels are learned in that order too.
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
	answers  chan *hindsightv1.SessionResponse // has room for an answer of every flight
	ended    chan struct{}                     // closed after failure is set
	failure  error
	expected []uint64 // correlation ids, in the order of their answers
	watchdog *time.Timer
	late     atomic.Bool // the watchdog has ended the stream
}

// receive passes the answers on until the stream ends. Every flight has at most
// one open call. So receive never blocks if the server follows the protocol.
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

// run sends the rounds in flight again, then begins new rounds.
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
			break // The rounds in flight are finished first.
		}
		s.flights = append(s.flights, f)
		if err := s.send(f); err != nil {
			return err
		}
	}
	return nil
}

// next begins a round. If there is none, or ctx has ended, the round is nil and
// stop says why.
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

// send sends the next call of f: first for the prediction, then with the label.
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
		return s.predicted(f, body.Prediction)
	case *hindsightv1.SessionResponse_Outcome:
		if !observed {
			return status.Error(codes.Internal, "the session answered a prediction with an outcome")
		}
		s.result.Observe.Add(time.Since(f.sent))
		f.outcome = body.Outcome
		return s.accountDone()
	default:
		return s.refused(f, refusal.FromSession(answer.GetError()))
	}
}

// predicted sends the label of a prediction.
func (s *session) predicted(f *flight, p *hindsightv1.Prediction) error {
	s.result.Predict.Add(time.Since(f.sent))
	f.predicted = true
	f.labels = f.round.Labels(served(p))
	if s.refusal != nil {
		f.abandoned = true
		return s.accountDone()
	}
	return s.send(f)
}

// refused handles the server's refusal of a call.
func (s *session) refused(f *flight, err error) error {
	switch {
	case f.predicted && f.lost(err):
		f.byFeatures = true
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
func (s *session) accountDone() error {
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
