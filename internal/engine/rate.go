package engine

import (
	"sync/atomic"
	"time"
)

const (
	// A rate counts the observations of slotLength together.
	slotLength = 10 * time.Second
	// It is told of the slots of the last minute, and of the one that is being filled.
	slotsTold = 6
	slots     = 8
)

// rate counts the observations of the last minute: one goroutine adds, at a cost of O(1)
// and without a lock, and any may read.
type rate struct {
	// slots have, at n mod slots, the number n of a slot since 1970 in the upper half, and
	// its observations in the lower.
	slots [slots]atomic.Uint64
}

func slotOf(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) / uint64(slotLength) }

// add counts observations.
func (r *rate) add(now time.Time, observations int) {
	n := slotOf(now)
	slot := &r.slots[n%slots]
	was := slot.Load()
	if was>>32 != n {
		was = n << 32
	}
	slot.Store(was + uint64(observations))
}

// perSecond is the mean of the last minute and of the slot that is being filled.
func (r *rate) perSecond(now time.Time) float64 {
	n := slotOf(now)
	sum := uint64(0)
	for k := range r.slots {
		if v := r.slots[k].Load(); v>>32 <= n && n-v>>32 <= slotsTold {
			sum += v & (1<<32 - 1)
		}
	}
	filling := time.Duration(now.UnixNano() % int64(slotLength))
	return float64(sum) / (slotsTold*slotLength + filling).Seconds()
}
