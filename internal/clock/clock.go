// Package clock provides a time of day that follows jumps of the machine's clock late, and a wait that a context ends.
package clock

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// A difference of at most tolerance between the clock and the elapsed time is no jump:
	// clocks are corrected by small amounts.
	tolerance = 10 * time.Second
	// A jump is followed after hold. A wrong clock that is corrected within hold expires
	// nothing.
	hold = time.Hour
	// An anchor is renewed after renewal while the clock does not jump.
	renewal = time.Minute
)

// Reading is a reading of a machine's two clocks.
type Reading struct {
	// Now is the time of day.
	Now time.Time
	// Passed is the time since a fixed moment. It does not jump.
	Passed time.Duration
}

// Steady is a clock of the time of day. It is the machine's clock until that clock jumps,
// forward or back. Then it advances by the elapsed time for an hour, and follows the jump
// after it, unless the machine's clock has returned.
//
// The suspension of a machine counts as a jump: its monotonic clock may stop.
type Steady struct {
	read   func() Reading
	jumped func(by time.Duration, followed bool)
	// anchor is the reading that the clock advances from, noticed the first reading of a
	// jump, nil without a jump.
	anchor, noticed atomic.Pointer[Reading]
}

// New returns a clock over the machine's clock: now is time.Now, whose times have a monotonic
// part. It calls jumped when it notices a jump, and again when it follows the jump.
func New(now func() time.Time, jumped func(by time.Duration, followed bool)) *Steady {
	started := now()
	return Over(func() Reading {
		now := now()
		return Reading{Now: now, Passed: now.Sub(started)} // By its monotonic part.
	}, jumped)
}

// Over returns a clock over other clocks.
func Over(read func() Reading, jumped func(by time.Duration, followed bool)) *Steady {
	s := &Steady{read: read, jumped: jumped}
	first := read()
	s.anchor.Store(&first)
	return s
}

// Now returns the time of day. It has a monotonic part if the readings have one, so that the
// difference of two times is the elapsed time. Now may be called concurrently. It costs a
// reading and one or two atomic loads.
func (s *Steady) Now() time.Time {
	now, anchor := s.read(), s.anchor.Load()
	passed := now.Passed - anchor.Passed
	off := now.Now.Round(0).Sub(anchor.Now.Round(0)) - passed
	noticed := s.noticed.Load()
	switch {
	case off.Abs() <= tolerance:
		if noticed != nil {
			s.noticed.Store(nil) // The clock has returned.
		}
		if passed >= renewal {
			s.anchor.CompareAndSwap(anchor, &now)
		}
		return now.Now
	case noticed == nil:
		if s.noticed.CompareAndSwap(nil, &now) {
			s.jumped(off, false)
		}
	case now.Passed-noticed.Passed >= hold:
		if s.anchor.CompareAndSwap(anchor, &now) {
			s.noticed.Store(nil)
			s.jumped(off, true)
		}
		return now.Now
	}
	return anchor.Now.Add(passed)
}

// Sleep waits for d. It returns false if the context ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
