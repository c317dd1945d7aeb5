package scaling

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// inputMoments are the moments of the inputs, see moments.Table, and the weights of the rows.
type inputMoments struct {
	weights model.Weights
	moments.Table
}

// add takes more observations, in O(d) each. Each counts by the weights of all of them.
func (m *inputMoments) add(rows []row) {
	for _, r := range rows {
		m.weights.Add(r.weight)
	}
	for _, r := range rows {
		m.Add(r.x, m.weights.Of(r.weight))
	}
}

func (m *inputMoments) scale(a *Affine, lists []List) {
	for i := range a.Scale {
		a.Offset[i], a.Scale[i] = m.Mean(i), m.Deviation(i)
	}
	a.deviate(lists)
}

// maxWeights bounds Σw: model.MaxWeight each, and 2⁶⁴ of them.
const maxWeights = 1e29

// visit visits Σw and the moments. The number of observations is the learner's.
func (m *inputMoments) visit(v *codec.Visitor) {
	if v.Within(maxWeights, &m.weights.Sum); v.Reading() && !(m.weights.Sum > 0) {
		v.Corrupt("weights of %g together", m.weights.Sum)
	}
	m.Visit(v)
}
