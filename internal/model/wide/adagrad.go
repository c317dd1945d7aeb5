package wide

import (
	"math"

	"hindsight/internal/model/codec"
)

// descent is adagrad. With the gradient g = −ω(y − w·z)z of a row and G_j = Σg_j²,
//
//	w_j ← S(w_j − g_j/√(d G_j), λ/√(d G_j)),  λ = κ σ √(2 ln r/Σω)
//
// where d = r − 1. If the step would move w·z by more than half of the miss, it is cut to half of
// it: the first steps have all coordinates' full length.
type descent struct {
	step, kappa float64
	weights     []float64
	squares     []float64 // G.
	noise       float64   // σ².
}

func newDescent(features int, kappa float64) descent {
	return descent{
		step: 1 / math.Sqrt(float64(features-1)), kappa: kappa,
		weights: make([]float64, features), squares: make([]float64, features), noise: 1,
	}
}

// learn learns a row, given √(2 ln r/Σω).
func (d *descent) learn(z []float64, miss, counts, unit float64) {
	d.noise = newNoise(d.noise, miss, counts)
	slope := float64(counts * miss)
	if slope == 0 {
		return
	}
	moved := 0.0
	for j, v := range z {
		g := float64(slope * v)
		square := math.Min(maxProduct, d.squares[j]+float64(g*g))
		d.squares[j] = square
		if g != 0 {
			moved += float64(float64(g*v) / math.Sqrt(square))
		}
	}
	step := d.step
	if reach := float64(step * math.Abs(moved)); 2*reach > math.Abs(miss) {
		step = float64(step*math.Abs(miss)) / (2 * reach)
	}
	threshold := float64(float64(d.kappa*math.Sqrt(d.noise)) * unit)
	for j, v := range z {
		if square := d.squares[j]; square > 0 {
			scale := step / math.Sqrt(square)
			next := d.weights[j] + float64(scale*float64(slope*v))
			if threshold > 0 && j < len(z)-1 {
				next = soft(next, float64(scale*threshold))
			}
			d.weights[j] = math.Max(-maxWeight, math.Min(maxWeight, next))
		}
	}
}

func (d *descent) visit(v *codec.Visitor) {
	v.FloatsWithin(maxWeight, d.weights)
	v.FloatsWithin(maxProduct, d.squares)
	visitNoise(v, &d.noise)
	for j, square := range d.squares {
		if v.Reading() && square < 0 {
			v.Corrupt("weight %d has squared gradients of sum %g", j, square)
		}
	}
}
