package drift

import (
	"math"

	"hindsight/internal/model/codec"
)

// Bounds of a state. Every state that losses lead to is within them.
const (
	maxCount = 1 << 62
	maxSum   = 1e280
	maxKey   = 1 << (11 + mantissa)
)

// Visit visits the state. Every number has 8 bytes, and the 128 counts have 4. The counts
// are present if the reference has a block. The last four numbers are present if the
// newest bet on a separation was won.
func (d *Detector) Visit(v *codec.Visitor) {
	v.Uint64(&d.observed)
	v.Within(maxSum, &d.loss, &d.root)
	v.Uint64(&d.n)
	v.Int(maxKey-1, &d.base)
	directions := [...]*direction{&d.rise, &d.fall}
	for _, w := range directions {
		v.Within(2*threshold, &w.r)
		v.Within(maxCount, &w.score)
		v.Uint64(&w.length)
		v.Within(maxSum, &w.before, &w.after)
	}
	last := &d.last
	v.Uint64(&last.Detected, &last.Rises, &last.Change, &last.Noticed)
	v.Bool(&last.Rise)
	v.Within(maxSum, &last.Before, &last.After)
	if d.n > 0 {
		if v.Reading() {
			d.counts = make([]uint32, bins)
		}
		for i := range d.counts {
			v.Uint32(&d.counts[i])
		}
	}
	if d.separates() || v.Reading() && v.Left() > 0 {
		for _, w := range directions {
			v.Within(threshold/separation, &w.q)
			v.Uint64(&w.won)
		}
		if v.Reading() && !d.separates() {
			v.Corrupt("bets that were not won")
		}
	}
	if v.Reading() {
		d.check(v)
	}
}

// separates reports whether the newest bet on a separation was won in a direction.
func (d *Detector) separates() bool { return d.rise.won > 0 || d.fall.won > 0 }

func (d *Detector) check(v *codec.Visitor) {
	if blocks := d.observed / block; d.observed > maxCount || d.n > blocks || d.n > math.MaxUint32 {
		v.Corrupt("%d losses, %d blocks", d.observed, d.n)
	}
	if negative(d.loss, d.root, d.last.Before, d.last.After) || d.observed%block == 0 && (d.loss != 0 || d.root != 0) {
		v.Corrupt("sums of losses of %g and %g", d.loss, d.root)
	}
	for _, w := range []*direction{&d.rise, &d.fall} {
		if negative(w.r, w.q, w.score, w.before, w.after) || w.evidence() >= threshold ||
			(w.q > 0) != (w.won > 0) || w.won > 0 && w.won >= d.n || w.length > 0 && w.length >= d.n || w.length == 0 && (w.after != 0 || w.score != 0) ||
			d.n == 0 && *w != (direction{}) {
			v.Corrupt("impossible evidence of a change")
		}
	}
	if d.last != (Statistics{}) && !d.last.possible(d.observed, d.n) {
		v.Corrupt("an impossible last change")
	}
	sum := uint64(0)
	for _, c := range d.counts {
		sum += uint64(c)
	}
	if sum != d.n || (d.base == 0) != (d.n == 0 || uint64(d.counts[zero]) == d.n) {
		v.Corrupt("counts of %d blocks, want %d", sum, d.n)
	}
}

// possible reports whether observed losses, the newest since blocks of them after the
// change, can lead to such statistics.
func (s Statistics) possible(observed, since uint64) bool {
	return s.Detected > 0 && s.Detected <= observed/block && s.Rises <= s.Detected && (s.Rises > 0 || !s.Rise) &&
		s.Change > block && s.Change%block == 1 && s.Change <= s.Noticed &&
		s.Noticed%block == 0 && s.Noticed <= observed && since <= (observed-s.Noticed)/block
}

func negative(values ...float64) bool {
	for _, v := range values {
		if v < 0 || math.Signbit(v) {
			return true
		}
	}
	return false
}
