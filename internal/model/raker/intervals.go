package raker

import (
	"math"
	"math/bits"

	"hindsight/internal/model/exponential"
)

// MaxExperts bounds the experts, and the memory, of an AdaRaker: after 2^39 intervals of the
// shortest length no longer ones are added.
const MaxExperts = 40

// maxMetaStep is the largest step in the exponents of the experts' weights.
const maxMetaStep = 0.5

// hedge are the experts of an output, the experts of the shortest intervals first: one of a Raker. AdaRaker
// hedges over Rakers of many step sizes. Expert j lives on
// consecutive intervals I of length |I| = B·2^j with the step
//
//	η_j = min(cap, η0/√|I|)
//
// and at slot t, with h_j = η_j already at the first slot of an interval,
//
//	ŷ = Σ h_j f_j / Σ h_j,  r_j = C(ŷ, y) − C(f_j, y)
//	h_j ← η_j after the first slot, else h_j exp(min(η_j, 1/2) r_j)
//
// where f_j is the prediction of expert j, a Raker, and losses are times the observation's
// weight. In the exponent the step is at most 1/2: the paper's steps are, its analysis wants
// them below 1, and with the large steps that bounded slopes need, h_j would follow single
// losses. Slots count from 1, in blocks of B; expert j appears at block 2^j and starts again
// at every multiple of it: block k has 1+⌊log₂ k⌋ experts. At the start of an interval a
// cold expert forgets θ and its weights, a warm one keeps them.
//
// All experts share the random features: a round costs one feature map and O(PD log t).
// Several outputs are as many AdaRakers over the same features.
//
// Source: AdaRaker (JMLR 2019), Algorithm 2, eqs (31)-(33) and Figure 2. The paper's (31)
// and (32) together shrink the weight of the better expert; the sign here is the sign of Daniely
// et al. (ICML 2015). Its (31) also leaves h = 0 at a first slot: at t = 2^j, the first slot
// of all experts, ŷ would be 0/0.
type hedge []expert

// topWeight is the largest log h_j: weights are taken relative to it.
func (h hedge) topWeight() float64 {
	top := math.Inf(-1)
	for j := range h {
		top = max(top, h[j].logh)
	}
	return top
}

// appendWeights appends the weights of the kernels of every expert to dst, expert after expert, and
// then the weights h_j of the experts, relative to the largest, by one call of Exp.
func (h hedge) appendWeights(dst []float64) []float64 {
	from := len(dst)
	for j := range h {
		dst = append(dst, h[j].logw...)
	}
	top := h.topWeight()
	for j := range h {
		dst = append(dst, h[j].logh-top)
	}
	exponential.Exp(dst[from:], dst[from:])
	return dst
}

// block is the number, from 1, of the block of slot t, and whether t is its first slot.
func (r *Raker) block(t uint64) (number uint64, first bool) {
	base := uint64(r.options.BaseInterval)
	return (t-1)/base + 1, (t-1)%base == 0
}

// active is the number of experts at slot t. A Raker has one, which never starts again.
func (r *Raker) active(t uint64) int {
	if !r.options.Adaptive {
		return 1
	}
	number, _ := r.block(t)
	return min(bits.Len64(number), MaxExperts)
}

// starting is the number of first experts that start an interval at slot t: expert j does
// in every block whose number 2^j divides.
func (r *Raker) starting(t uint64) int {
	number, first := r.block(t)
	if !first || !r.options.Adaptive {
		return 0
	}
	return bits.TrailingZeros64(number) + 1
}

// begin prepares the experts for slot t: it restarts those whose interval starts there, and
// at a power of two adds one. Observe calls begin for the next slot: Predict only reads.
func (r *Raker) begin(t uint64) {
	for k, experts := range r.outputs {
		for j := range min(r.starting(t), len(experts)) {
			e := &experts[j]
			e.logh = exponential.Log(e.step)
			if r.options.Cold { // θ = 0 and uniform weights.
				clear(e.theta)
				clear(e.logw)
			}
		}
		for len(r.outputs[k]) < r.active(t) {
			r.outputs[k] = append(r.outputs[k], r.newExpert(len(r.outputs[k])))
		}
	}
}
