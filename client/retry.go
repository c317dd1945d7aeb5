package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry says how calls without an answer are sent again. Every prediction and
// observation has an id, so it is learned once. A call of the control path is sent
// again if a second effect is the same as one. The zero value sends nothing again.
type Retry struct {
	// Max is how often a call is sent again at most.
	Max int
	// Backoff is the wait before the first retry, 100 ms if it is 0. Every further wait is
	// twice as long, at most MaxBackoff. The wait is drawn from the upper half of this time, so
	// that clients do not come back together.
	Backoff time.Duration
	// MaxBackoff is the longest wait, 5 s if it is 0. If the server asks for a longer wait than
	// the call would wait, the call waits so long, and a tenth more at most. If the server asks
	// for more than MaxBackoff, the call fails.
	MaxBackoff time.Duration
	// Stop ends the retries when it is closed: calls in flight are finished, and none is
	// sent again. It may be nil.
	Stop <-chan struct{}
	// OnRetry is called before each wait, from the goroutine of the call. It may be nil.
	OnRetry func(err error, wait time.Duration)
}

// DefaultRetry is how a client retries unless WithRetry says otherwise.
func DefaultRetry() Retry { return Retry{Max: 6} }

const (
	defaultBackoff    = 100 * time.Millisecond
	defaultMaxBackoff = 5 * time.Second
)

// wait waits before try number attempt + 1. It returns false for no further try: the error allows
// none, Max is reached, ctx or Stop end the wait, or the deadline of ctx would pass before it.
func (r Retry) wait(ctx context.Context, attempt int, err error) bool {
	var rejected *Error
	if attempt >= r.Max || !errors.As(err, &rejected) || !rejected.retriable() {
		return false
	}
	delay, possible := r.delay(attempt, rejected)
	if deadline, bounded := ctx.Deadline(); !possible || bounded && time.Until(deadline) <= delay {
		return false
	}
	select {
	case <-r.Stop:
		return false
	default:
	}
	if r.OnRetry != nil {
		r.OnRetry(err, delay)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.Stop:
		return false
	case <-timer.C:
		return true
	}
}

// delay is how long to wait. It is not possible if the server asks for more than
// MaxBackoff.
func (r Retry) delay(attempt int, rejected *Error) (wait time.Duration, possible bool) {
	limit := r.MaxBackoff
	if limit <= 0 {
		limit = defaultMaxBackoff
	}
	wait = r.Backoff
	if wait <= 0 {
		wait = defaultBackoff
	}
	for range attempt {
		if wait >= limit {
			break
		}
		wait *= 2
	}
	wait = min(wait, limit)
	wait = wait/2 + rand.N(wait/2+1)
	if asked := rejected.RetryDelay; wait < asked {
		wait = asked + rand.N(asked/10+1)
	}
	return wait, rejected.RetryDelay <= limit
}
