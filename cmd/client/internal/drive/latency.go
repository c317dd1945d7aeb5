package drive

import (
	"math"
	"math/bits"
	"time"
)

const (
	mantissaBits = 7
	mantissas    = 1 << mantissaBits
	buckets      = (64 - mantissaBits) * mantissas
)

// Latency is a distribution of durations. It counts them in buckets whose width
// is at most 1/128 of their value. Its size is constant. The zero value is empty.
type Latency struct {
	counts []uint64
	total  uint64
}

// Add adds one duration.
func (l *Latency) Add(d time.Duration) {
	if l.counts == nil {
		l.counts = make([]uint64, buckets)
	}
	l.counts[bucket(uint64(max(d, 0)))]++
	l.total++
}

// Quantile returns the quantile q of the durations, with the precision of a
// bucket. It is 0 without a duration.
func (l *Latency) Quantile(q float64) time.Duration {
	if l.total == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(q*float64(l.total))))
	var seen uint64
	for i, n := range l.counts {
		if seen += n; seen >= rank {
			return time.Duration(upper(i))
		}
	}
	return time.Duration(upper(len(l.counts) - 1))
}

// bucket returns the bucket of v. Values below 128 have a bucket each. A larger
// value has the bucket of its seven bits after the first one, for its number of
// bits.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-mantissaBits-1)
	return shift*mantissas + int(v>>shift)
}

// upper returns the largest value of a bucket.
func upper(i int) uint64 {
	shift := max(0, i/mantissas-1)
	return uint64(i-shift*mantissas+1)<<shift - 1
}
