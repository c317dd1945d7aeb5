package logloss

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/mix"
)

// sparse is logistic regression on many numbers by steps of adagrad. The features v of a row are its
// counts, divided by their norm; the other numbers, standardized and divided by the root of how many
// they are; and 1. With p(k) ∝ exp(w_k·v), the truth y and g_kj = ω (p(k) − y_k) v_j,
//
//	G_kj ← G_kj + g_kj²,  w_kj ← w_kj − η g_kj/√G_kj
//
// A row costs O(K) for each feature that is not 0.
//
// Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization (JMLR 12, 2011), §1.1.
type sparse struct {
	features int
	// weights and squares are w and G by classes, by features.
	weights, squares []float64
}

const (
	sparseStep      = 0.5 // η.
	maxSparseWeight = 1e6
)

// features appends the features that are not 0.
func (m *multinomial) features(dst []entry, counts []entry, z []float64) []entry {
	square, others := 0.0, 0
	for _, e := range counts {
		square += float64(e.value * e.value)
	}
	for _, e := range counts {
		dst = append(dst, entry{e.number, e.value / math.Sqrt(square)})
	}
	for _, measured := range m.measured {
		if measured {
			others++
		}
	}
	for j, measured := range m.measured {
		if measured && z[j] != 0 {
			dst = append(dst, entry{j, z[j] / math.Sqrt(float64(others))})
		}
	}
	return append(dst, entry{len(m.measured), 1})
}

// logs writes log p(k) of all classes, 0 before the exponential of a class that it does not know.
func (n *sparse) logs(dst, each []float64, row []entry) {
	n.odds(dst, row)
	normalize(dst, each)
}

func (n *sparse) odds(dst []float64, row []entry) {
	clear(dst)
	for k := range dst {
		if own := k * n.features; own < len(n.weights) {
			for _, e := range row {
				dst[k] += float64(n.weights[own+e.number] * e.value)
			}
		}
	}
}

// learn learns a row of a class, the next one if it is new, among so many classes. P is scratch of their number.
func (n *sparse) learn(p []float64, row []entry, class int, weight float64) {
	for len(n.weights) < len(p)*n.features {
		n.weights = append(n.weights, make([]float64, n.features)...)
		n.squares = append(n.squares, make([]float64, n.features)...)
	}
	n.odds(p, row)
	mix.Exponential(p)
	mix.Normalize(p)
	for k, v := range p {
		if k == class {
			v--
		}
		own := k * n.features
		for _, e := range row {
			at := own + e.number
			step(&n.weights[at], &n.squares[at], float64(weight*float64(v*e.value)))
		}
	}
}

// step moves a weight by AdaGrad's step for the gradient g, and adds g² to the sum of squares.
func step(weight, square *float64, g float64) {
	if g == 0 {
		return
	}
	*square = math.Min(maxCount, *square+float64(g*g))
	*weight = math.Max(-maxSparseWeight, math.Min(maxSparseWeight, *weight-float64(sparseStep*g)/math.Sqrt(*square)))
}

func (n *sparse) visit(v *codec.Visitor, classes int) {
	if v.Reading() {
		n.weights, n.squares = make([]float64, classes*n.features), make([]float64, classes*n.features)
	}
	v.FloatsWithin(maxSparseWeight, n.weights)
	v.FloatsWithin(maxCount, n.squares)
	for i, square := range n.squares {
		if v.Reading() && square < 0 {
			v.Corrupt("weight %d has squared gradients of sum %g", i, square)
			return
		}
	}
}
