package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// DefaultWindow is how many calls of a session may be in flight unless it says so.
const DefaultWindow = 256

// ErrSessionClosed says that a call was made in a session after Close.
var ErrSessionClosed = errors.New("hindsight: the session is closed")

// Session makes calls of one model without waiting for their answers. The server takes
// them in the order in which they were made. When the connection is lost, the calls
// without an answer are sent again, in the same order and under the same ids. It is
// safe for concurrent use.
type Session struct {
	model  *Model
	slots  chan struct{} // one for each call without an answer
	wake   chan struct{} // has room for one: there is something to send, or to end
	cancel context.CancelFunc
	done   chan struct{} // closed when the session has ended
	sought int           // the streams in turn whose server was not the owner

	mu struct {
		sync.Mutex

		// Calls without an answer: in flight in the current stream, in the order of their
		// answers, and behind them the calls to be sent.
		flying, waiting []*call
		next            uint64 // the correlation id of the next call
		answered        bool   // the current stream has answered a call
		closing         bool
		leaving         bool  // the session looks for the owner by its next stream
		err             error // why the session has failed
	}
}

// call is one call of a session.
type call struct {
	request *hindsightv1.SessionRequest
	// late is the same observation by its input; see Model.request. Again says that it
	// is sent in place of the first request.
	late  *hindsightv1.ObserveRequest
	again bool
	// finish gives the answer to the future. It is called once.
	finish func(*hindsightv1.SessionResponse, error)
}

// Future is an answer that comes later.
type Future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Done is closed when the answer is there.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

// Wait waits for the answer, or for the end of ctx. The call goes on after that.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Session begins a session with at most so many calls in flight, DefaultWindow if
// window is 0. The first call connects. The end of ctx ends the session: calls without
// an answer fail. Close must be called.
func (m *Model) Session(ctx context.Context, window int) *Session {
	if window <= 0 {
		window = DefaultWindow
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{
		model: m, cancel: cancel,
		slots: make(chan struct{}, window), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

// Predict asks for a prediction. It waits while the session has no room, until ctx
// ends.
func (s *Session) Predict(ctx context.Context, input Input, options ...PredictOption) *Future[*hindsightv1.Prediction] {
	r, err := s.model.predictRequest(input, options)
	request := &hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Predict{Predict: r}}
	return submit(ctx, s, request, nil, err, (*hindsightv1.SessionResponse).GetPrediction)
}

// Observe sends a target. It waits while the session has no room, until ctx ends.
func (s *Session) Observe(ctx context.Context, o Observation) *Future[*hindsightv1.Outcome] {
	r, late, err := s.model.request(o)
	request := &hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Observe{Observe: r}}
	return submit(ctx, s, request, late, err, (*hindsightv1.SessionResponse).GetOutcome)
}

// Close waits for the answers to all calls and ends the session. It returns why the
// session has failed; refusals of calls are in their futures.
func (s *Session) Close() error {
	s.mu.Lock()
	s.mu.closing = true
	s.mu.Unlock()
	s.signal()
	<-s.done
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// submit makes a call. If err is not nil, it is the answer.
func submit[T comparable](
	ctx context.Context, s *Session, request *hindsightv1.SessionRequest, late *hindsightv1.ObserveRequest, err error,
	read func(*hindsightv1.SessionResponse) T,
) *Future[T] {
	f := &Future[T]{done: make(chan struct{})}
	finish := func(answer *hindsightv1.SessionResponse, err error) {
		var none T
		if f.value, f.err = read(answer), err; err == nil && f.value == none {
			f.err = fmt.Errorf("%w: an answer of another kind", ErrProtocol)
		}
		close(f.done)
	}
	if err == nil {
		err = s.add(ctx, &call{request: request, late: late, finish: finish})
	}
	if err != nil {
		finish(nil, err)
	}
	return f
}

// add queues a call when there is room.
func (s *Session) add(ctx context.Context, c *call) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.err; err != nil || s.mu.closing {
		<-s.slots
		if err == nil {
			err = ErrSessionClosed
		}
		return err
	}
	c.request.CorrelationId = s.mu.next
	s.mu.next++
	s.mu.waiting = append(s.mu.waiting, c)
	s.signal()
	return nil
}

// signal wakes the goroutine of the session.
func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run begins streams until the session is closed and every call has its answer.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	attempt, began := 0, time.Time{} // The streams in turn without an answer, and when the first of them failed.
	for s.idle(ctx) {
		err := s.stream(ctx, s.limit(began, attempt))
		if s.progress() || err == nil {
			attempt = 0
		}
		if err == nil {
			continue
		}
		if attempt == 0 {
			began = time.Now() //nolint:forbidigo // A deadline is a time of the machine.
		}
		if ctx.Err() != nil || !s.again(ctx, began, attempt, err) {
			s.fail(err)
			return
		}
		attempt++
	}
	s.mu.Lock()
	closing := s.mu.closing
	s.mu.Unlock()
	if !closing {
		s.fail(ctx.Err())
	}
}

// limit returns how long a stream may wait for its first answer, 0 for no limit. The streams after a failure have
// the timeout together.
func (s *Session) limit(began time.Time, attempt int) time.Duration {
	c := s.model.client
	if c.timeout <= 0 || attempt == 0 {
		return c.timeout
	}
	return max(1, c.share(time.Until(began.Add(c.timeout)), attempt))
}

// again waits before the next stream. It returns false for no further stream.
func (s *Session) again(ctx context.Context, began time.Time, attempt int, err error) bool {
	c := s.model.client
	if c.timeout > 0 {
		bounded, cancel := context.WithDeadline(ctx, began.Add(c.timeout))
		defer cancel()
		ctx = bounded
	}
	return c.retry.wait(ctx, attempt, err)
}

// idle waits for a call. It returns false if the session is closed or ctx has ended.
func (s *Session) idle(ctx context.Context) bool {
	for {
		s.mu.Lock()
		due, closing := len(s.mu.waiting) > 0, s.mu.closing
		s.mu.Unlock()
		if due || closing {
			return due
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// progress reports whether the last stream has answered a call. Its other calls wait to be sent
// again.
func (s *Session) progress() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := s.mu.answered
	s.mu.answered = false
	return answered
}

// fail ends every call without an answer.
func (s *Session) fail(err error) {
	s.mu.Lock()
	s.mu.err = err
	left := s.mu.waiting
	s.mu.waiting = nil
	s.mu.Unlock()
	for _, c := range left {
		c.finish(nil, err)
		<-s.slots
	}
}

// stream sends calls over one stream until it breaks, or until the session is closed
// and every call has its answer. The limit bounds the wait for the first answer, 0 does not.
func (s *Session) stream(ctx context.Context, limit time.Duration) error {
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watchdog{limit: limit, expire: func() { cancel(errLate) }}
	w.start() // The time of the connection.
	calls, err := s.model.client.predictions.Session(context.WithValue(alive, sessionOf{}, s.model.id))
	w.stop()
	if err != nil {
		return s.lost(alive, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.receive(calls, w) }()
	received := s.send(calls, w, ended)
	if received == nil {
		cancel(nil)
		received = <-ended
	}
	w.stop()
	s.mu.Lock()
	s.mu.waiting = append(s.mu.flying, s.mu.waiting...)
	s.mu.flying = nil
	over := len(s.mu.waiting) == 0 || s.mu.leaving && errors.Is(received, io.EOF)
	s.mu.leaving = false
	s.mu.Unlock()
	if over {
		return nil // Another call begins another stream.
	}
	return s.lost(alive, received)
}

// lost says why a stream has ended.
func (s *Session) lost(alive context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(alive), errLate):
		err = status.Error(codes.DeadlineExceeded, "no answer in time")
	case errors.Is(err, io.EOF):
		err = status.Error(codes.Unavailable, "the server ended the session")
	}
	return s.model.client.failed(err)
}

// errLate is why a stream ends that does not answer in time.
var errLate = errors.New("hindsight: no answer in time")

// send sends the waiting calls. It returns the error of receive, or nil if receive has not ended
// and the stream takes no more calls.
func (s *Session) send(calls hindsightv1.PredictionService_SessionClient, w *watchdog, ended <-chan error) error {
	for {
		request, closed := s.take(w)
		switch {
		case closed:
			if calls.CloseSend() == nil {
				return <-ended
			}
			return nil
		case request != nil:
			if calls.Send(request) != nil {
				return <-ended // It says why.
			}
			continue
		}
		select {
		case <-s.wake:
		case err := <-ended:
			return err
		}
	}
}

// take takes the next call into flight. Closed: no call is in flight, and the stream takes no more.
func (s *Session) take(w *watchdog) (request *hindsightv1.SessionRequest, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 || s.mu.leaving {
		return nil, (s.mu.closing || s.mu.leaving) && len(s.mu.flying) == 0
	}
	c := s.mu.waiting[0]
	s.mu.waiting = s.mu.waiting[1:]
	if len(s.mu.flying) == 0 {
		w.start()
	}
	s.mu.flying = append(s.mu.flying, c)
	return c.request, false
}

// receive takes answers until the stream ends.
func (s *Session) receive(calls hindsightv1.PredictionService_SessionClient, w *watchdog) error {
	for first := true; ; first = false {
		answer, err := calls.Recv()
		if err != nil {
			return err
		}
		if first {
			s.seek(calls)
		}
		if err := s.answer(answer, w); err != nil {
			return err
		}
	}
}

// seek leaves a stream whose server forwards its calls, after the calls in flight. The session
// tries each server once.
func (s *Session) seek(calls hindsightv1.PredictionService_SessionClient) {
	header, err := calls.Header()
	s.sought++
	if err != nil || len(header[forwardedKey]) == 0 || s.sought == len(s.model.client.servers.conns) {
		s.sought = 0
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.leaving = true
}

// answer gives an answer to its call. An error ends the stream.
func (s *Session) answer(answer *hindsightv1.SessionResponse, w *watchdog) error {
	c, err := s.land(answer, w)
	if c == nil {
		return err
	}
	c.finish(answer, err)
	<-s.slots
	s.signal() // The session may be over.
	return nil
}

// land takes the call of an answer out of flight, and returns it with its refusal. It
// returns no call if the call is to be sent again, or the answer is of no call.
func (s *Session) land(answer *hindsightv1.SessionResponse, w *watchdog) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.flying) == 0 || s.mu.flying[0].request.GetCorrelationId() != answer.GetCorrelationId() {
		return nil, fmt.Errorf("%w: an answer to call %d out of turn", ErrProtocol, answer.GetCorrelationId())
	}
	c := s.mu.flying[0]
	var refused *Error
	if answer.GetError() != nil {
		refused = fromStatus(status.FromProto(answer.GetError()))
	}
	if refused != nil && refused.retriable() {
		return nil, refused // A new stream sends it again, and those behind it.
	}
	s.mu.flying = s.mu.flying[1:]
	s.mu.answered = true
	w.stop()
	w.limit = s.model.client.timeout // The stream works.
	if len(s.mu.flying) > 0 {
		w.start()
	}
	switch {
	case refused == nil:
		return c, nil
	case c.late != nil && refused.Is(ErrPredictionNotFound):
		c.request.Call = &hindsightv1.SessionRequest_Observe{Observe: c.late}
		c.late, c.again = nil, true
		at := 0 // Before new calls, behind those that came to be sent again earlier.
		for at < len(s.mu.waiting) && s.mu.waiting[at].again {
			at++
		}
		s.mu.waiting = slices.Insert(s.mu.waiting, at, c)
		s.signal()
		return nil, nil
	default:
		return c, refused
	}
}

// watchdog ends a stream that owes an answer for too long. Session.mu guards it.
type watchdog struct {
	limit  time.Duration // 0: none
	expire func()
	timer  *time.Timer
}

// start starts the time of the next answer.
func (w *watchdog) start() {
	switch {
	case w.limit <= 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.expire)
	default:
		w.timer.Reset(w.limit)
	}
}

// stop stops it.
func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
