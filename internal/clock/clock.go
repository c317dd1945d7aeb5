// Package clock gives a time of day that no jump of the machine's clock moves at once.
package clock

import (
	"sync/atomic"
	"time"
)

const (
	// A difference of at most tolerance between the clock and the time that has passed is
	// no jump: a clock is set a little now and then.
	tolerance = 10 * time.Second
	// A jump is followed after hold. A clock that was set wrong is corrected within it, and
	// what would have expired has not.
	hold = time.Hour
	// An anchor serves for renewal while the clock goes well.
	renewal = time.Minute
)

// Reading is what a machine's clocks show at one moment.
type Reading struct {
	// Now is the time of day.
	Now time.Time
	// Passed is the time that has passed since some moment in the past. It does not jump.
	Passed time.Duration
}

// Steady is a clock of the time of day. While the machine's clock goes on as time passes,
// it is that clock. When that jumps, forward or back, it goes on as time passes for an
// hour, and follows the jump then, unless the clock has come back.
//
// A suspended machine is a jump too: its monotonic clock may stand still.
type Steady struct {
	read   func() Reading
	jumped func(by time.Duration, followed bool)
	// anchor is a reading that the clock goes on from, noticed the first one of a jump,
	// nil while there is none.
	anchor, noticed atomic.Pointer[Reading]
}

// New is a clock over that of the machine: now is time.Now, whose times have a monotonic
// part. Jumped is told of each jump, when it is noticed and when it is followed.
func New(now func() time.Time, jumped func(by time.Duration, followed bool)) *Steady {
	started := now()
	return Over(func() Reading {
		now := now()
		return Reading{Now: now, Passed: now.Sub(started)} // By its monotonic part.
	}, jumped)
}

// Over is New over other clocks.
func Over(read func() Reading, jumped func(by time.Duration, followed bool)) *Steady {
	s := &Steady{read: read, jumped: jumped}
	first := read()
	s.anchor.Store(&first)
	return s
}

// Now is the time of day. It has a monotonic part if the readings have one, so that the
// difference of two is the time that has passed. It may be called by any number of
// goroutines, and costs a reading and an atomic load or two.
func (s *Steady) Now() time.Time {
	now, anchor := s.read(), s.anchor.Load()
	passed := now.Passed - anchor.Passed
	off := now.Now.Round(0).Sub(anchor.Now.Round(0)) - passed
	noticed := s.noticed.Load()
	switch {
	case off.Abs() <= tolerance:
		if noticed != nil {
			s.noticed.Store(nil) // It has come back.
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
