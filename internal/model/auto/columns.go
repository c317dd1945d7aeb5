package auto

import (
	"math"

	"hindsight/internal/model/moments"
)

// columns are running means and deviations of columns.
type columns struct {
	moments []moments.Running
	// scale is the deviation; max(|mean|, 1) of a column that has not changed but by rounding,
	// and 1 before the first row.
	scale []float64
	// joint are columns that have one scale: the root of the sum of their variances.
	joint []Span
}

func newColumns(count int, joint []Span) columns {
	c := columns{make([]moments.Running, count), make([]float64, count), joint}
	c.rescale(0)
	return c
}

// add learns a row that counts ω, given Σω of all rows.
func (c *columns) add(x []float64, counts, total float64) {
	for j, v := range x {
		c.moments[j].Add(v, counts, total)
	}
	c.rescale(total)
}

// rescale finds the scales of rows that count total together.
func (c *columns) rescale(total float64) {
	for j, m := range c.moments {
		c.scale[j] = spread(m.Mean, m.Squares, total)
	}
	for _, span := range c.joint {
		squares := 0.0
		for _, m := range c.moments[span.From:span.To] {
			squares += m.Squares
		}
		common := spread(0, squares, total)
		for j := span.From; j < span.To; j++ {
			c.scale[j] = common
		}
	}
}

func spread(mean, squares, total float64) float64 {
	if total > 0 && squares > 0 {
		if s := math.Sqrt(squares / total); s >= leastScale && s > moments.Rounding*math.Abs(mean) {
			return s
		}
	}
	return math.Max(math.Abs(mean), 1)
}

const (
	// A column whose deviation is less counts as constant.
	leastScale = 1e-100
	// The largest scaled input. No number of n is more than √n deviations off their mean.
	maxScaled = 1e6
)

// scaled writes (x − mean)/scale into dst.
func (c *columns) scaled(dst, x []float64) {
	for j, v := range x {
		dst[j] = within((v-c.moments[j].Mean)/c.scale[j], -maxScaled, maxScaled)
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
