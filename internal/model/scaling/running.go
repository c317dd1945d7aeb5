package scaling

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// inputMoments are the moments of each input over all observations, with Σω in counted, see model.Weights:
//
//	0 < counted <= weights.Rows
type inputMoments struct {
	weights model.Weights
	counted float64
	inputs  []moments.Exact
}

func newMoments(dimension int) *inputMoments {
	return &inputMoments{inputs: make([]moments.Exact, dimension)}
}

// add takes more observations, in O(d) each. Each counts by the weights of all of them.
func (m *inputMoments) add(rows []row) {
	for _, r := range rows {
		m.weights.Add(r.weight)
	}
	for _, r := range rows {
		counts := m.weights.Of(r.weight)
		m.counted += counts
		for i, v := range r.x {
			m.inputs[i].Add(v, counts, m.counted)
		}
	}
}

// scale sets the scaling of the inputs, in O(d).
func (m *inputMoments) scale(a *Affine, lists []List) {
	for i := range m.inputs {
		a.Offset[i], a.Scale[i] = m.inputs[i].Mean.Value(), m.inputs[i].Deviation(m.counted)
	}
	a.deviate(lists)
}

// maxSquares bounds a sum of squares: (2e100)² each, and 2⁶⁴ of them.
const maxSquares = 1e220

// maxWeights bounds Σw: model.MaxWeight each, and 2⁶⁴ of them.
const maxWeights = 1e29

// visit visits Σw, Σω, the means and the sums of squares. The number of observations is the
// learner's.
func (m *inputMoments) visit(v *codec.Visitor) {
	v.Within(maxWeights, &m.weights.Sum, &m.counted)
	if v.Reading() && !(m.weights.Sum > 0 && m.counted > 0) {
		v.Corrupt("weights of %g together that count %g", m.weights.Sum, m.counted)
	}
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
