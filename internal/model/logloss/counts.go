package logloss

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

// multinomial is naive Bayes on the counts of a row: of words in a text, of items in a basket. With
// N_kj = Σωx_j over the rows of class k and V numbers
//
//	log p(k) = log π_k + Σ_j x_j log (N_kj + 1)/(Σ_i N_ki + V)
//
// A number counts something until it is none of 0, 1, 2, … maxCounted; from then on it is left out. A row costs
// O(d) and O(K) for each number that is not 0.
//
// Source: McCallum and Nigam, A Comparison of Event Models for Naive Bayes Text Classification
// (AAAI workshop on learning for text categorization, 1998).
type multinomial struct {
	// measured are the numbers that are left out.
	measured []bool
	// sums are N by classes, by numbers; totals are Σ_j N_kj.
	sums   []float64
	totals []float64
}

const (
	fewNumbers = 64      // With no more there are no experts of counts.
	mostSums   = 1 << 18 // Of classes × numbers with experts of counts.
	maxCounted = 1000
)

func (m *multinomial) of(class int) []float64 {
	d := len(m.measured)
	return m.sums[class*d:][:d]
}

// counted appends the counts of a row that are not 0, given which inputs are the numbers.
func (m *multinomial) counted(dst []entry, numbers []int, x []float64) []entry {
	for j, input := range numbers {
		v := x[input]
		if v != 0 && !m.measured[j] && counts(v) {
			dst = append(dst, entry{j, v})
		}
	}
	return dst
}

func counts(v float64) bool { return v >= 0 && v <= maxCounted && v == math.Trunc(v) }

// logs writes log p, normalized, given the logarithms of the shares.
func (m *multinomial) logs(dst, each []float64, row []entry, shares []float64) {
	for k := range dst {
		sums, sum := m.of(k), 0.0
		all := m.totals[k] + float64(len(m.measured))
		for _, e := range row {
			sum += float64(e.value * exponential.Log((sums[e.number]+1)/all))
		}
		dst[k] = shares[k] + sum
	}
	normalize(dst, each)
}

// learn learns a row of a class, the next one if it is new.
func (m *multinomial) learn(x []float64, class int, weight float64) {
	if class == len(m.totals) {
		m.totals, m.sums = append(m.totals, 0), append(m.sums, make([]float64, len(m.measured))...)
	}
	own, left := m.of(class), false
	for j, v := range x {
		switch {
		case m.measured[j] || v == 0:
		case !counts(v):
			m.leave(j)
			left = true
		default:
			part := float64(weight * v)
			own[j] = math.Min(maxCount, own[j]+part)
			m.totals[class] = math.Min(maxCount, m.totals[class]+part)
		}
	}
	if left {
		m.sum()
	}
}

// leave leaves out a number. The caller sums the totals again.
func (m *multinomial) leave(j int) {
	m.measured[j] = true
	for k := range m.totals {
		m.of(k)[j] = 0
	}
}

// sum sums the totals. A difference of totals would be rounded as the larger totals were.
func (m *multinomial) sum() {
	for k := range m.totals {
		total := 0.0
		for _, n := range m.of(k) {
			total += n
		}
		m.totals[k] = math.Min(maxCount, total)
	}
}

func (m *multinomial) visit(v *codec.Visitor, classes int) {
	if v.Reading() {
		m.totals, m.sums = make([]float64, classes), make([]float64, classes*len(m.measured))
	}
	for j := range m.measured {
		v.Bool(&m.measured[j])
	}
	v.FloatsWithin(maxCount, m.sums)
	v.FloatsWithin(maxCount, m.totals)
	if !v.Reading() {
		return
	}
	for k, total := range m.totals {
		sum := 0.0
		for j, n := range m.of(k) {
			if sum += n; !(n >= 0) || n > 0 && m.measured[j] {
				v.Corrupt("number %d of class %d counts %g", j, k, n)
				return
			}
		}
		if !(math.Abs(sum-total) <= 1e-6*(1+sum)) {
			v.Corrupt("counts of class %d of sum %g, not %g", k, sum, total)
		}
	}
}
