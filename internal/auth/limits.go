package auth

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

const busyDelay = 50 * time.Millisecond

// limits are the limits of an entry. The principals of the entry share them.
type limits struct {
	// calls is nil without a limit of the rate, busy without a limit of the concurrency.
	calls *rate.Limiter
	busy  *Budget
}

// newLimits takes 0 for no limit. The calls of a second may come in a burst.
func newLimits(perSecond float64, places int) *limits {
	l := &limits{}
	if places > 0 {
		l.busy = NewBudget(int64(places))
	}
	if perSecond > 0 {
		l.calls = rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(perSecond)))
	}
	return l
}

func (l *limits) spend(now time.Time) error {
	if l.calls == nil || l.calls.AllowN(now, 1) {
		return nil
	}
	r := l.calls.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	r.CancelAt(now)
	return &LimitError{ErrRate, wait}
}

func (l *limits) hold() error {
	if l.busy != nil {
		if _, ok := l.busy.Take(1, 0); !ok {
			return &LimitError{ErrConcurrency, busyDelay}
		}
	}
	return nil
}

func (l *limits) enter(now time.Time) error {
	if err := l.hold(); err != nil {
		return err
	}
	if err := l.spend(now); err != nil {
		l.leave()
		return err
	}
	return nil
}

func (l *limits) leave() {
	if l.busy != nil {
		l.busy.Give(1)
	}
}

// LimitError is ErrRate or ErrConcurrency with the time to wait.
type LimitError struct {
	Err  error
	Wait time.Duration
}

func (d *LimitError) Error() string { return d.Err.Error() }

func (d *LimitError) Unwrap() error { return d.Err }
