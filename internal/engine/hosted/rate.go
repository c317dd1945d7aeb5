package hosted

import (
	"sync/atomic"
	"time"
)

const (
	// A rate counts the observations of slotLength together.
	slotLength = 10 * time.Second
	// The mean is of the slots of the last minute, and of the slot being filled.
	slotsReported = 6
	slots         = 8
)

// rate counts the observations of the last minute. The turn adds, in O(1) without a lock, and anybody
// reads.
type rate struct {
	// slots[n mod slots] has the number n of a slot since 1970 in the upper half, and the count of its
	// observations in the lower half.
	slots [slots]atomic.Uint64
}

func (r *rate) add(now time.Time, observations int) {
	n := uint64(max(0, now.UnixNano())) / uint64(slotLength)
	slot := &r.slots[n%slots]
	was := slot.Load()
	if was>>32 != n {
		was = n << 32
	}
	slot.Store(was + uint64(observations))
}

func (r *rate) perSecond(now time.Time) float64 {
	n := uint64(max(0, now.UnixNano())) / uint64(slotLength)
	sum := uint64(0)
	for k := range r.slots {
		if v := r.slots[k].Load(); v>>32 <= n && n-v>>32 <= slotsReported {
			sum += v & (1<<32 - 1)
		}
	}
	filling := time.Duration(now.UnixNano() % int64(slotLength))
	return float64(sum) / (slotsReported*slotLength + filling).Seconds()
}
