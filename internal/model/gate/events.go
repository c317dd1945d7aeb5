package gate

import (
	"math"
	"slices"
)

// Labels that are rare and large are errors, or they are what matters most: a spike of
// demand, an amount that is mostly 0. Labels alone do not tell the two apart. Inputs do:
// an error comes at any input, and an event is foretold by some. So each row that was set
// aside is compared with the 50 rows learned before it and the 50 learned after it. If
// rows are set aside whatever their inputs, the place of its score among those of the
// other rows is any place alike,
//
//	p = (1 + #{rows whose score is at least as extreme})/(1 + #rows),  P(p ≤ δ) ≤ δ
//
// for each of 3d + 1 scores: every input, high and low, its distance to the nearest such
// input of earlier rows set aside, and that distance over all inputs together. On each
// score a fortune M bets that p is small,
//
//	M ← max(M (0.1 + 80·1[p ≤ 0.01] + 2·1[p ≤ 0.05]), 0.01)
//
// which does not grow on average but by the floor. When the mean of the fortunes reaches
// 500, the inputs foretell the rows. By Ville's inequality, n errors that come at any
// input look so with a probability of at most (1 + n/100)/500.
//
// The rows on both sides of an event are what it is compared with, because inputs drift:
// were all of them earlier, an input that wanders back would look like a sign.
//
// Sources: Ville, Étude critique de la notion de collectif (1939); Vovk, Gammerman and
// Shafer, Algorithmic Learning in a Random World (2005), chapter 7, for bets on p-values
// of exchangeable rows.
const (
	// A row is compared with half rows on each side.
	half     = 50
	compared = 2 * half
	// The mean fortune that admits events is convinced, the least fortune is poorest.
	convinced = 500
	poorest   = 0.01
	// Rows that are set aside within spacing rows are one incident, and count once.
	spacing = 10
	// Sizes within alike of the least one count as of one kind.
	alike = 4
	// With more inputs than this nothing is admitted.
	maxInputs = 1024
)

// events are the bets on the rows that were set aside.
type events struct {
	// window is a ring of the inputs of the last rows that were learned, seen counts them.
	window []float64
	seen   uint64
	// fortunes are M: of each input high, low and near, then of all inputs together.
	fortunes []float64
	// pending are the rows that are to be compared, oldest first: spacing or more rows
	// apart, so that there are half/spacing at most.
	pending []pending
	// earlier are the inputs of the rows that were compared, oldest first.
	earlier [][]float64
	// least is the size of the smallest of these rows, 0 for none.
	least float64
}

// pending is the input of a row, and how many rows were learned after it.
type pending struct {
	x     []float64
	since int
}

func newEvents(dimension int) events {
	if dimension > maxInputs {
		return events{}
	}
	e := events{window: make([]float64, compared*dimension), fortunes: make([]float64, 3*dimension+1)}
	e.reset()
	return e
}

// reset forgets the rows that were compared.
func (e *events) reset() {
	for i := range e.fortunes {
		e.fortunes[i] = 1
	}
	e.pending, e.earlier, e.least = nil, nil, 0
}

// dimension is d, 0 with too many inputs.
func (e *events) dimension() int { return len(e.window) / compared }

// ceiling is the largest size of the rows that are admitted.
func (e *events) ceiling() float64 { return alike * e.least }

// begin takes up a row that was just set aside. Of sizes that are not alike the smallest are
// compared: what they admit admits the least.
func (e *events) begin(r *row) {
	n := len(e.pending)
	switch {
	case e.dimension() == 0 || (n > 0 && e.pending[n-1].since < spacing) || (e.least > 0 && r.size > e.ceiling()):
		return
	case e.least == 0 || float64(alike*r.size) < e.least:
		e.reset()
		e.least = r.size
	default:
		e.least = math.Min(e.least, r.size)
	}
	e.pending = append(e.pending, pending{x: slices.Clone(r.x)})
}

// follow takes in the inputs of a row that was learned, and tells whether inputs foretell
// what was set aside. It costs O(d), and O(100·16·d) for the last row of a comparison.
func (e *events) follow(x []float64) bool {
	d := e.dimension()
	if d == 0 {
		return false
	}
	copy(e.window[int(e.seen%compared)*d:][:d], x)
	e.seen++
	for i := range e.pending {
		e.pending[i].since++
	}
	if len(e.pending) == 0 || e.pending[0].since < half {
		return false
	}
	row := e.pending[0].x
	e.compare(row)
	if len(e.earlier) == asideRows {
		e.earlier = slices.Delete(e.earlier, 0, 1)
	}
	e.earlier, e.pending = append(e.earlier, row), slices.Delete(e.pending, 0, 1)
	total := 0.0
	for _, v := range e.fortunes {
		total += v
	}
	return total >= convinced*float64(len(e.fortunes))
}

// compare bets on the scores of a row.
func (e *events) compare(row []float64) {
	d := e.dimension()
	rows := int(min(e.seen, compared))
	for j, v := range row {
		high, low, near := 0, 0, 0
		gap := e.gap(j, v)
		for i := range rows {
			other := e.window[i*d+j]
			if other >= v {
				high++
			}
			if other <= v {
				low++
			}
			if e.gap(j, other) <= gap {
				near++
			}
		}
		e.bet(3*j, high, rows)
		e.bet(3*j+1, low, rows)
		if len(e.earlier) > 0 {
			e.bet(3*j+2, near, rows)
		}
	}
	if len(e.earlier) == 0 {
		return
	}
	scales := e.scales(rows)
	near, distance := 0, e.distance(row, scales)
	for i := range rows {
		if e.distance(e.window[i*d:][:d], scales) <= distance {
			near++
		}
	}
	e.bet(3*d, near, rows)
}

// bet multiplies a fortune, where so many of the rows are at least as extreme.
func (e *events) bet(score, extreme, rows int) {
	p, factor := float64(1+extreme)/float64(1+rows), 0.1
	if p <= 0.01 {
		factor += 0.8 / 0.01
	}
	if p <= 0.05 {
		factor += 0.1 / 0.05
	}
	e.fortunes[score] = math.Max(float64(e.fortunes[score]*factor), poorest)
}

// gap is the distance of an input to the nearest of the earlier rows.
func (e *events) gap(input int, v float64) float64 {
	least := math.Inf(1)
	for _, x := range e.earlier {
		least = math.Min(least, math.Abs(v-x[input]))
	}
	return least
}

// distance is the squared distance of all inputs to the nearest of the earlier rows.
func (e *events) distance(x, scales []float64) float64 {
	least := math.Inf(1)
	for _, r := range e.earlier {
		sum := 0.0
		for j, v := range x {
			gap := (v - r[j]) * scales[j]
			sum += float64(gap * gap)
		}
		least = math.Min(least, sum)
	}
	return least
}

// scales are 1/deviation of every input over the rows, 0 for one that does not change.
func (e *events) scales(rows int) []float64 {
	d := e.dimension()
	scales := make([]float64, d)
	for j := range scales {
		low, high := math.Inf(1), math.Inf(-1)
		for i := range rows {
			v := e.window[i*d+j]
			low, high = math.Min(low, v), math.Max(high, v)
		}
		if high > low {
			scales[j] = 1 / (high - low)
		}
	}
	return scales
}
