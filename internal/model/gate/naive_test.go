package gate_test

import (
	"math"
	"slices"
	"sort"
)

// naive is the rule of docs/theory.md of one output, without events: it keeps every label
// of a start and computes each figure anew from all of them.
type naive struct {
	// learned are the labels of this start, early those of its first 128 rows that were
	// not dropped; taken counts the rows of this start that were learned.
	learned, early []float64
	taken          int
	ring           []float64
	alarm          float64
	later          bool
	starts         int
}

// means are m, a, A and v over labels.
func means(labels []float64) (m, near, far, moves float64) {
	for n, y := range labels {
		if n == 0 {
			m = y
			continue
		}
		d, count := math.Abs(y-m), float64(n)
		near += math.Max(0.01, 1/count) * (d - near)
		far += (d - far) / count
		m += math.Max(0.01, 1/(count+1)) * (y - m)
		moves *= 0.98
		if y != labels[n-1] {
			moves += 0.02
		}
	}
	return m, near, far, moves
}

func distinct(labels []float64) int {
	sorted := slices.Clone(labels)
	sort.Float64s(sorted)
	return len(slices.Compact(sorted))
}

// limit is 50 times the mean of |y − median| but the largest.
func (n *naive) limit() (limit, median float64) {
	if distinct(n.learned) <= 2 {
		return 0, 0
	}
	sorted := slices.Clone(n.early)
	sort.Float64s(sorted)
	median = sorted[len(sorted)/2]
	for i, y := range sorted {
		sorted[i] = math.Abs(y - median)
	}
	sort.Float64s(sorted)
	spared := len(sorted) / 32
	if n.later {
		spared = len(sorted) / 5
	}
	rest, sum := sorted[:len(sorted)-max(1, spared)], 0.0
	for _, u := range rest {
		sum += u
	}
	return 50 * sum / float64(len(rest)), median
}

func (n *naive) strange(y float64) bool {
	if n.taken < 128 {
		if len(n.early) < 4 {
			return false
		}
		limit, median := n.limit()
		return limit > 0 && math.Abs(y-median) > limit*(1+50/float64(len(n.early)))
	}
	m, near, far, _ := means(n.learned)
	s := math.Max(near, far)
	return s > 0 && distinct(append(slices.Clone(n.learned), y)) > 2 &&
		math.Abs(y-m)/s > 20*(1+50/float64(len(n.learned)))
}

func (n *naive) observe(y float64) (setAside bool) {
	if n.strange(y) {
		n.alarm++
		n.ring = append(n.ring, y)
		n.ring = n.ring[max(0, len(n.ring)-5):]
		if n.alarm < 5 {
			return true
		}
		*n = naive{later: true, starts: n.starts + 1, learned: n.ring, early: slices.Clone(n.ring), taken: len(n.ring)}
		return false
	}
	n.learned, n.taken = append(n.learned, y), n.taken+1
	if n.alarm = math.Max(0, n.alarm-0.1); n.alarm == 0 {
		n.ring = nil
	}
	if n.taken <= 128 {
		n.early = append(n.early, y)
		if n.taken >= 4 && n.taken&(n.taken-1) == 0 {
			n.purge()
		}
		return false
	}
	if _, near, far, moves := means(n.learned); len(n.learned) > 1000 && distinct(n.learned) > 2 && 20*near < far && moves > 0.1 {
		*n = naive{later: true, starts: n.starts + 1}
	}
	return false
}

// purge drops what is far from the other labels of the start.
func (n *naive) purge() {
	limit, median := n.limit()
	if len(n.early) < 8 {
		limit *= 1 + 50/float64(len(n.early))
	}
	var rest []float64
	for _, y := range n.early {
		if limit == 0 || math.Abs(y-median) <= limit {
			rest = append(rest, y)
		}
	}
	if len(rest) < len(n.early) {
		n.early, n.learned = rest, slices.Clone(rest)
	}
}
