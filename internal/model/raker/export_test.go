package raker

import (
	"math"

	"hindsight/internal/model/feature"
)

// NewRaker is New of a Raker.
func NewRaker(maps []feature.Map, o Options) *Raker {
	o.Adaptive = false
	return New(maps, o)
}

// NewAdaRaker is New of an AdaRaker.
func NewAdaRaker(maps []feature.Map, o Options) *Raker {
	o.Adaptive = true
	return New(maps, o)
}

// Weights are the normalized weights of the kernels of an output, of sum 1.
func (r *Raker) Weights(output int) []float64 { return r.outputs[output][0].weights() }

func (e *expert) weights() []float64 {
	weights, total := make([]float64, len(e.logw)), 0.0
	for p, v := range e.logw {
		weights[p] = math.Exp(v)
		total += weights[p]
	}
	for p := range weights {
		weights[p] /= total
	}
	return weights
}

// Expert is one expert of an AdaRaker at the slot to come.
type Expert struct {
	// Start is the first slot of its present interval, from 1.
	Start uint64
	// Length is the length of its intervals.
	Length uint64
	// Step is η_j.
	Step float64
	// Weight is its share of the prediction; shares sum to 1.
	Weight float64
	// Kernels are its normalized weights of the kernels.
	Kernels []float64
}

// Experts are the experts that the next prediction of an output is made of, those of
// the shortest intervals first.
func (r *Raker) Experts(output int) []Expert {
	number, _ := r.block(r.accounts[0].Rounds + 1)
	base := uint64(r.options.BaseInterval)
	of := r.outputs[output]
	top, total := of.topWeight(), 0.0
	experts := make([]Expert, len(of))
	for j := range experts {
		e := &of[j]
		experts[j] = Expert{
			Start:  (number>>j<<j-1)*base + 1,
			Length: base << j,
			Step:   e.step, Weight: math.Exp(e.logh - top), Kernels: e.weights(),
		}
		total += experts[j].Weight
	}
	for j := range experts {
		experts[j].Weight /= total
	}
	return experts
}
