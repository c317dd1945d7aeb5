package auto

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// columns are the running means and deviations of columns.
type columns struct {
	moments.Table
	// scale is the deviation; max(|mean|, 1) of a column that has not changed but by rounding,
	// and 1 before the first row.
	scale []float64
	// joint are columns that have one scale: the root of the sum of their variances.
	joint []Span
}

func newColumns(count int, joint []Span) columns {
	c := columns{moments.NewTable(count), make([]float64, count), joint}
	c.rescale()
	return c
}

// add learns a row that counts ω.
func (c *columns) add(x []float64, counts float64) {
	c.Add(x, counts)
	c.rescale()
}

func (c *columns) rescale() {
	for j := range c.scale {
		if c.scale[j] = c.Deviation(j); c.scale[j] < leastScale {
			c.scale[j] = math.Max(math.Abs(c.Mean(j)), 1)
		}
	}
	for _, span := range c.joint {
		square := 0.0
		for j := span.From; j < span.To; j++ {
			square += float64(c.Deviation(j) * c.Deviation(j))
		}
		common := math.Sqrt(square)
		if common < leastScale {
			common = 1
		}
		for j := span.From; j < span.To; j++ {
			c.scale[j] = common
		}
	}
}

const (
	// A scale that is less counts as none.
	leastScale = 1e-100
	// The largest scaled input.
	maxScaled = 1e6
	// From openingRows rows on, an indicator of a category needs indicatedRows rows.
	indicatedRows = 8
)

// scaled writes (x − mean)/scale into dst. A strange value stands at its limit: see moments.Table.Cut.
//
// AWV draws the whole prediction to its prior where an input leaves the span of the rows: the prediction for a new category
// would lose what the other inputs say. So after the opening two kinds of values stand at the mean: a new value in a constant
// column, and the indicators of a category that fewer than indicatedRows rows have.
func (c *columns) scaled(dst, x []float64) {
	for j, v := range x {
		dst[j] = within((c.Cut(j, v)-c.Mean(j))/c.scale[j], -maxScaled, maxScaled)
		if c.Deviation(j) < leastScale && c.Total(j) >= openingRows {
			dst[j] = 0
		}
	}
	for _, span := range c.joint {
		k := active(x[span.From:span.To])
		if k >= 0 && c.Total(span.From+k) >= openingRows && c.squares(span.From+k) < indicatedRows {
			clear(dst[span.From:span.To])
		}
	}
}

// squares is Σω x² of a column. Of an indicator it is Σω of the rows that have it.
func (c *columns) squares(column int) float64 {
	m, s := c.Mean(column), c.Deviation(column)
	return c.Total(column) * (float64(m*m) + float64(s*s))
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

func (c *columns) visit(v *codec.Visitor) {
	if c.Visit(v); v.Reading() {
		c.rescale()
	}
}
