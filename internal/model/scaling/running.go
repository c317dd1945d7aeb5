package scaling

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// inputMoments are those of each input over all n observations, each counted once.
type inputMoments struct {
	n      uint64
	inputs []moments.Exact
}

func newMoments(dimension int) *inputMoments {
	return &inputMoments{inputs: make([]moments.Exact, dimension)}
}

// add takes one more observation, in O(d).
func (m *inputMoments) add(x []float64) {
	m.n++
	for i, v := range x {
		m.inputs[i].Add(v, m.n)
	}
}

// scale sets the scaling of the inputs, in O(d).
func (m *inputMoments) scale(a *Affine, lists []List) {
	for i := range m.inputs {
		a.Offset[i], a.Scale[i] = m.inputs[i].Mean.Value(), m.inputs[i].Deviation(m.n)
	}
	a.deviate(lists)
}

// maxSquares bounds a sum of squares: (2e100)² each, and 2⁶⁴ of them.
const maxSquares = 1e220

// visit visits the means and the sums of squares. The number of observations is the
// learner's.
func (m *inputMoments) visit(v *codec.Visitor) {
	for i := range m.inputs {
		mean := &m.inputs[i].Mean
		v.Within(2*model.MaxMagnitude, &mean.High, &mean.Low)
	}
	for i := range m.inputs {
		squares := &m.inputs[i].Squares
		if v.Within(maxSquares, squares); v.Reading() && *squares < 0 {
			v.Corrupt("input %d: a sum of squares of %g", i, *squares)
		}
	}
}
