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

// Spend counts a call. It fails with ErrRate above the limit.
func (p *Principal) Spend(now time.Time) error {
	if p == nil || p.entry.limits.calls == nil || p.entry.limits.calls.AllowN(now, 1) {
		return nil
	}
	r := p.entry.limits.calls.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	r.CancelAt(now)
	return &LimitError{ErrRate, wait}
}

// Hold holds a place until Leave, while a body arrives. It fails with ErrConcurrency.
func (p *Principal) Hold() error {
	if p != nil && p.entry.limits.busy != nil {
		if _, ok := p.entry.limits.busy.Take(1, 0); !ok {
			return &LimitError{ErrConcurrency, busyDelay}
		}
	}
	return nil
}

// Enter counts a call, and holds a place until Leave. It fails with ErrRate or ErrConcurrency,
// and then holds no place.
func (p *Principal) Enter(now time.Time) error {
	if err := p.Hold(); err != nil {
		return err
	}
	if err := p.Spend(now); err != nil {
		p.Leave()
		return err
	}
	return nil
}

// Leave ends Enter or Hold.
func (p *Principal) Leave() {
	if p != nil && p.entry.limits.busy != nil {
		p.entry.limits.busy.Give(1)
	}
}

// LimitError is ErrRate or ErrConcurrency with the time to wait.
type LimitError struct {
	Err  error
	Wait time.Duration
}

func (d *LimitError) Error() string { return d.Err.Error() }

func (d *LimitError) Unwrap() error { return d.Err }
