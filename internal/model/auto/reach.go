package auto

import (
	"math"
	"slices"
)

// reach is how far the advice of an output leaves the range of its labels.
type reach struct {
	// above are the last overshoots max(0, y − high), high being the one before y. below are
	// the overshoots on the other side.
	above, below [overshoots]float64
	// lowest and highest are the widest floor and ceiling so far: lowest <= advice <= highest.
	lowest, highest float64
}

const (
	// Advice may leave the range of the labels on a side on which the last overshoots
	// labels left it, by overshootFactor times their smallest overshoot.
	overshoots      = 3
	overshootFactor = 2
	// The room of advice beyond an end of the labels is endRoom times their range.
	endRoom = 0.1
)

// overshoot adds a label, given the range of the labels before.
func (r *reach) overshoot(y, low, high float64) {
	copy(r.above[1:], r.above[:overshoots-1])
	copy(r.below[1:], r.below[:overshoots-1])
	r.above[0], r.below[0] = math.Max(0, y-high), math.Max(0, low-y)
}

// cutAfter sets the ranges that values and advice are cut to after n labels: the range of the labels and,
// from lastStage labels on, beyond it where the last three labels left it. So the learner
// follows a line that rises for ever, and one outlier moves nothing.
//
// Advice has room beyond an end of the range that at least half of the labels have, such as the 0 of amounts that are
// rare. Advice that is cut at 0 is above the mean label: its errors below 0 are gone, and its errors above 0 are not.
func (m *mixer) cutAfter(n uint64, counted float64) {
	m.bottom, m.top = m.low, m.high
	if n >= lastStage {
		m.bottom -= overshootFactor * slices.Min(m.below[:])
		m.top += overshootFactor * slices.Min(m.above[:])
	}
	m.floor, m.ceiling = m.bottom, m.top
	if n < lastStage || m.signs {
		return
	}
	room := float64(endRoom * (m.high - m.low))
	if 2*m.atLow >= counted {
		m.floor -= room
	}
	if 2*m.atHigh >= counted {
		m.ceiling += room
	}
}

// extended returns an end of the range of the labels, and Σω of the labels that equal it, after a label y of ω = counts.
func extended(end, at, y, counts float64, beyond bool) (newEnd, newAt float64) {
	switch {
	case beyond:
		return y, counts
	case y == end:
		return end, at + counts
	default:
		return end, at
	}
}

// widen adds the range that advice is cut to after n labels to the widest one.
func (m *mixer) widen(n uint64) {
	if n == 1 {
		m.lowest, m.highest = m.floor, m.ceiling
	}
	m.lowest, m.highest = math.Min(m.lowest, m.floor), math.Max(m.highest, m.ceiling)
}
