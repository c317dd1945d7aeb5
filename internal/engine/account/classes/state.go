package classes

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

const (
	performanceBytes = 8 + 2*5*8
	classBytes       = 32
	// Fewer than maxRounds observations keep every count exact. No sum over them exceeds
	// maxSum.
	maxRounds = 1 << 53
	maxSum    = 1e20
)

// Size returns the memory of the account in bytes, at a cost of O(1).
func (a *Account) Size() uint64 {
	const fixed = 512
	size := fixed + performanceBytes*a.recent.Capacity() + classBytes*cap(a.classes)
	if a.ranking != nil {
		size += 8 * 2 * rankBins
	}
	return uint64(size)
}

// Visit visits the account, in numbers of 8 bytes. Reading wants a new account, and derives
// the majority.
func (a *Account) Visit(v *codec.Visitor) {
	v.Uint64(&a.predicted)
	a.served.visit(v, maxSum)
	a.whole.Visit(v, maxSum)
	a.recent.Visit(v, func(p *Performance) { p.Visit(v, maxSum) })
	for n := range a.bins {
		b := &a.bins[n]
		v.Uint64(&b.Members, &b.Found)
		v.Within(maxSum, &b.Expected)
	}
	known := len(a.classes)
	v.Count(&known, classBytes)
	if v.Reading() {
		if known > a.limit {
			v.Corrupt("%d classes, want at most %d", known, a.limit)
			return
		}
		a.classes = make([]Class, known)
	}
	for n := range a.classes {
		c := &a.classes[n]
		v.Uint64(&c.Observed, &c.Errors, &c.Predicted)
		v.Within(maxSum, &c.Expected)
	}
	if known == 2 {
		ranked := a.ranking != nil
		if v.Bool(&ranked); ranked && v.Reading() {
			a.ranking = new(ranking)
		}
		if ranked && a.ranking != nil {
			a.ranking.visit(v)
		}
	}
	v.Within(0.5, &a.open)
	last := a.last + 1
	v.Int(len(a.classes), &last)
	if v.Reading() {
		a.last = last - 1
		a.check(v)
	}
}

func (a *Account) check(v *codec.Visitor) {
	total := a.whole.Observations
	if !(total >= 0 && total < maxRounds && total == math.Trunc(total)) || a.predicted > uint64(total) {
		v.Corrupt("%g observations, %d of them predicted", total, a.predicted)
		return
	}
	rows := uint64(total) + 1 // The classes count the first observation too.
	left := rows              // No sum of counts may overflow.
	for n, c := range a.classes {
		if c.Errors > c.Observed || c.Observed > left || c.Predicted > rows || c.Expected < 0 {
			v.Corrupt("class %d of %+v", n, c)
			return
		}
		left -= c.Observed
		if c.Observed > 0 && (a.majority == model.NoClass || c.Observed > a.classes[a.majority].Observed) {
			a.majority = n
		}
	}
	unlearned := a.last == model.NoClass
	if unlearned && (total > 0 || left != rows) || !unlearned && (left > 0 || a.classes[a.last].Observed == 0) {
		v.Corrupt("%g scored observations, %d of classes, the last class %d", total, rows-left, a.last)
	}
	if a.ranking != nil && a.ranking.total() > float64(rows) {
		v.Corrupt("%g ranked observations of %d", a.ranking.total(), rows)
	}
	if a.open < 0 {
		v.Corrupt("a class comes with probability %g", a.open)
	}
	for _, b := range a.bins {
		if b.Found > b.Members || b.Found > rows || b.Members > maxRounds*uint64(max(len(a.classes), 1)) || b.Expected < 0 {
			v.Corrupt("a bin of %+v", b)
		}
	}
	if (total == 0) != (a.recent.Blocks() == 0) {
		v.Corrupt("%d recent blocks of %g observations", a.recent.Blocks(), total)
	}
}
