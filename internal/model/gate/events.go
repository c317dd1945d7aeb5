package gate

import (
	"math"
	"slices"
)

// Rare large labels are errors, or they are what matters most: a spike of demand, an amount
// that is mostly 0. Inputs tell the two apart: an error comes at any input, and some inputs
// foretell an event. The gate compares each row that was set aside with the 50 learned rows
// before and the 50 learned rows after that row. If rows are set aside whatever their
// inputs, every rank of the row's score among the scores of the other rows has the same
// probability,
//
//	p = (1 + #{rows whose score is at least as extreme})/(1 + #rows),  P(p ≤ δ) ≤ δ
//
// for each of 3d + 1 scores: every input, high and low, the input's distance to the nearest
// compared row, and the distance to that row over all inputs. On each score a fortune M bets
// that p is small,
//
//	M ← max(M (0.1 + 80·1[p ≤ 0.01] + 2·1[p ≤ 0.05]), 0.01)
//
// The mean of M grows by the floor alone. When the mean of the fortunes reaches 500, the
// inputs foretell the rows. By Ville's inequality, n errors that come at any input reach 500
// with a probability of at most (1 + n/100)/500.
//
// Inputs drift: if all the other rows were earlier, an input that wanders back would look
// like a sign.
//
// Sources: Ville, Étude critique de la notion de collectif (1939); Vovk, Gammerman and
// Shafer, Algorithmic Learning in a Random World (2005), chapter 7, for bets on p-values
// of exchangeable rows.
const (
	// A row is compared with half rows on each side.
	half     = 50
	compared = 2 * half
	// Events are admitted at a mean fortune of convinced. No fortune is below poorest.
	convinced = 500
	poorest   = 0.01
	// Rows that are set aside within spacing rows are one incident, and count once.
	spacing = 10
	// Rows of a size of at most alike times the least size are of one kind.
	alike = 4
	// With more inputs no events are admitted.
	maxInputs = 1024
)

// events are the bets on the rows that were set aside.
type events struct {
	// window is a ring of the inputs of the last learned rows, seen counts the learned rows.
	window []float64
	seen   uint64
	// fortunes are M of each input high, low and near, then of all inputs.
	fortunes []float64
	// pending are the rows to compare, oldest first, spacing rows apart: len(pending) <= half/spacing.
	pending []pending
	// earlier are the inputs of the compared rows, oldest first: len(earlier) <= asideRows.
	earlier [][]float64
	// least is the least size of these rows, 0 without rows.
	least float64
}

// pending is the input of a row, and how many rows were learned since.
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

func (e *events) reset() {
	for i := range e.fortunes {
		e.fortunes[i] = 1
	}
	e.pending, e.earlier, e.least = nil, nil, 0
}

// dimension is d, 0 above maxInputs.
func (e *events) dimension() int { return len(e.window) / compared }

// ceiling is the largest size of the rows that are admitted.
func (e *events) ceiling() float64 { return alike * e.least }

// begin queues a row that was just set aside for comparison. Among rows of different kinds
// the gate compares the smallest, which admit the least.
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

// follow adds the inputs of a learned row, and reports whether inputs foretell the rows that
// were set aside. It costs O(d), and O(100·16·d) when a pending row is compared.
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

// bet multiplies the fortune of a score, extreme rows being at least as extreme.
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

// gap is the distance of an input to the nearest earlier row.
func (e *events) gap(input int, v float64) float64 {
	least := math.Inf(1)
	for _, x := range e.earlier {
		least = math.Min(least, math.Abs(v-x[input]))
	}
	return least
}

// distance is the squared distance of x to the nearest earlier row.
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

// scales are 1/range of every input over the rows, 0 for a constant input.
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
