package raker

import "math"

// Weights are the normalized weights of the kernels of an output, of sum 1.
func (r *Raker) Weights(output int) []float64 { return r.experts[output].weights() }

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
func (a *AdaRaker) Experts(output int) []Expert {
	number, _ := a.block(a.accounts[0].Rounds + 1)
	base := uint64(a.options.BaseInterval)
	of := a.outputs[output]
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
