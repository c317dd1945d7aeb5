package auto

import "math"

// moments are running means and deviations of columns.
type moments struct {
	// mean is Σx/n, squares Σ(x − mean)².
	mean, squares []float64
	// scale is the deviation √(squares/n); max(|mean|, 1) of a column that has
	// not changed, and 1 before the first row.
	scale []float64
	// joint are columns that have one scale: the root of the sum of their variances.
	joint []Span
}

func newMoments(columns int, joint []Span) moments {
	numbers := make([]float64, 3*columns)
	m := moments{numbers[:columns:columns], numbers[columns : 2*columns : 2*columns], numbers[2*columns:], joint}
	m.rescale(0)
	return m
}

// add learns a row, the n-th from 1. Weights are not counted.
//
// Source: Welford, Technometrics 4 (1962).
func (m *moments) add(x []float64, n uint64) {
	count := float64(n)
	for j, v := range x {
		before := v - m.mean[j]
		m.mean[j] += before / count
		m.squares[j] += float64(before * (v - m.mean[j]))
	}
	m.rescale(n)
}

// rescale finds the scales after n rows.
func (m *moments) rescale(n uint64) {
	for j, s := range m.squares {
		m.scale[j] = spread(m.mean[j], s, n)
	}
	for _, span := range m.joint {
		squares := 0.0
		for _, s := range m.squares[span.From:span.To] {
			squares += s
		}
		common := spread(0, squares, n)
		for j := span.From; j < span.To; j++ {
			m.scale[j] = common
		}
	}
}

func spread(mean, squares float64, n uint64) float64 {
	if n > 0 && squares > 0 {
		if s := math.Sqrt(squares / float64(n)); s >= leastScale {
			return s
		}
	}
	return math.Max(math.Abs(mean), 1)
}

const (
	// The least deviation: what deviates less counts as constant.
	leastScale = 1e-100
	// The largest scaled input. It is far beyond what a column of a finite
	// variance reaches: no number of n is more than √n deviations off their mean.
	maxScaled = 1e6
)

// scaled writes (x − mean)/scale into dst.
func (m *moments) scaled(dst, x []float64) {
	for j, v := range x {
		dst[j] = within((v-m.mean[j])/m.scale[j], -maxScaled, maxScaled)
	}
}

func within(v, low, high float64) float64 {
	if v < low {
		return low
	}
	if v > high {
		return high
	}
	return v
}
