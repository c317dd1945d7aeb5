package account

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

const version = 5

// Bounds of the numbers in an account. Labels and predictions are within 1e101,
// weights within model.MaxWeight.
const (
	maxNumber = 1e240
	maxLabel  = 2 * model.MaxMagnitude
)

// Visit visits the account: a byte of the version, then numbers of 8 bytes, the intervals
// and the detector each after its length.
func (a *Account) Visit(v *codec.Visitor) {
	v.Version(version)
	v.Int64(&a.Time)
	v.Uint64(&a.predicted)
	v.Within(maxNumber, &a.served.Loss, &a.served.RunningMean, &a.served.LastLabel, &a.excess, &a.labels.weight)
	v.FloatsWithin(maxLabel, a.labels.means)
	v.FloatsWithin(maxLabel, a.labels.last)
	performance := func(p *Performance) { p.Visit(v, maxNumber) }
	performance(&a.whole)
	a.recent.Visit(v, performance)
	for _, s := range a.intervals {
		v.Part(s.Visit)
	}
	v.Part(a.drift.Visit)
	a.pairs.Visit(v, math.MaxFloat64)
	if v.Reading() && a.labels.weight < 0 {
		v.Corrupt("a sum of weights of %g", a.labels.weight)
	}
}

// Size returns the memory of the account in bytes, at a cost of O(outputs).
func (a *Account) Size() uint64 {
	size := uint64(accountBytes + 16*len(a.labels.means) + performanceBytes*a.recent.Capacity())
	for _, s := range a.intervals {
		size += s.Size()
	}
	return size + a.drift.Size()
}

const (
	accountBytes     = 436
	performanceBytes = 96
)
