package scaling

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
)

// moments are the mean of each input and the sum of its squared deviations from
// it, over all observations so far, each counted once.
//
// Source: Welford, Technometrics 4 (1962). The mean is compensated: what an
// observation changes of it, a deviation over n, may be far below its last digit.
// Mean and deviation are so exact to their own rounding, however far from 0 the
// inputs are and however many there were. Magnitudes may be up to
// model.MaxMagnitude.
type moments struct {
	n       uint64
	means   []compensated.Sum
	squares []float64
}

func newMoments(dimension int) *moments {
	return &moments{means: make([]compensated.Sum, dimension), squares: make([]float64, dimension)}
}

// add takes one more observation in, in O(d).
func (m *moments) add(x []float64) {
	m.n++
	n := float64(m.n)
	before := (n - 1) / n
	for i, v := range x {
		mean := &m.means[i]
		off := (v - mean.High) - mean.Low
		mean.Add(off / n)
		m.squares[i] += float64(float64(off*off) * before)
	}
}

// scale sets the scaling of the inputs, in O(d).
func (m *moments) scale(a *Affine, lists []List) {
	n := float64(m.n)
	for i := range m.means {
		a.Offset[i], a.Scale[i] = m.means[i].Value(), math.Sqrt(m.squares[i]/n)
	}
	a.deviate(lists)
}

// appendBinary appends the means and the sums of squares. The number of
// observations is the learner's.
func (m *moments) appendBinary(dst []byte) []byte {
	for _, mean := range m.means {
		dst = codec.AppendFloats(dst, mean.High, mean.Low)
	}
	return codec.AppendFloats(dst, m.squares...)
}

// read reads what appendBinary wrote.
func (m *moments) read(reader *codec.Reader) {
	for i := range m.means {
		reader.Within(2*model.MaxMagnitude, &m.means[i].High, &m.means[i].Low)
	}
	reader.FloatsWithin(maxSquares, m.squares)
}

// check refuses sums of squares that no inputs have.
func (m *moments) check() error {
	for i, square := range m.squares {
		if !(square >= 0) {
			return fmt.Errorf("input %d: a sum of squares of %g: %w", i, square, model.ErrCorruptState)
		}
	}
	return nil
}

// maxSquares bounds a sum of squares: (2e100)² each, and 2⁶⁴ of them.
const maxSquares = 1e220
