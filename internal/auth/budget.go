package auth

import "sync/atomic"

// A Budget bounds what calls hold together: bytes of memory, or calls in progress. It rejects at once.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// NewBudget returns a Budget that nobody holds a part of.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// RequestBytes is the limit of the memory of requests: an eighth of the memory limit. A memory limit of 0 is none, and
// gives 256 MiB.
func RequestBytes(memoryLimit int64) int64 {
	if memoryLimit == 0 {
		return 256 << 20
	}
	return memoryLimit / 8
}

// Limit returns the limit.
func (b *Budget) Limit() int64 { return b.limit }

// Held returns what all calls hold.
func (b *Budget) Held() int64 { return b.held.Load() }

// Take adds n to what a call holds. The call then has holds of them. Take fails if all calls would hold more than the limit, and
// returns what they would hold. A call that alone holds more than the limit is admitted.
func (b *Budget) Take(n, holds int64) (all int64, ok bool) {
	if all = b.held.Add(n); all > b.limit && all > holds {
		b.held.Add(-n)
		return all, false
	}
	return all, true
}

// Give returns n.
func (b *Budget) Give(n int64) { b.held.Add(-n) }

// Hold adds n to what is held, also beyond the limit. A negative n returns it.
func (b *Budget) Hold(n int64) { b.held.Add(n) }
