package raker

import (
	"math"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
)

// expert is one Raker: its parameters and the logarithms of its weights.
type expert struct {
	// theta holds θ_p of all kernels, one after the other.
	theta []float64
	// logw holds log w_p less the largest: the weights neither underflow nor lose digits.
	logw []float64
	// average is θ̄ and steps the sum a of the steps, for SGM that averages.
	average []float64
	steps   float64
	// descents has an entry each kernel, none unless the learner certifies.
	descents []descent
	// step is η, of an AdaRaker η_j, meta the same in the exponent of h_j.
	step, meta float64
	// logh is log h_j, not shifted: new intervals begin at log η_j. That of a Raker is 0.
	logh float64
	// f and value are scratch: f_p and f_j of the round.
	f     []float64
	value float64
}

func (r *Raker) newExpert(j int) expert {
	e := expert{
		step:  r.options.Step,
		theta: make([]float64, r.total()),
		logw:  make([]float64, len(r.maps)),
		f:     make([]float64, len(r.maps)),
	}
	if r.options.Adaptive {
		e.step = math.Min(r.options.StepCap, r.options.Step/math.Sqrt(math.Ldexp(float64(r.options.BaseInterval), j)))
		e.logh, e.meta = exponential.Log(e.step), math.Min(e.step, maxMetaStep)
	}
	if r.options.Average {
		e.average = make([]float64, r.total())
	}
	if r.options.certifies() {
		e.descents = make([]descent, len(r.maps))
	}
	return e
}

// fold adds θ to the average, before a step of size s.
func (e *expert) fold(s float64) {
	e.steps += s
	if e.steps == 0 {
		return // The steps are too small for a number.
	}
	part := s / e.steps
	for i, v := range e.theta {
		e.average[i] += float64((v - e.average[i]) * part)
	}
}

// mix is Σ w_p f_p / Σ w_p for the weights w, or θ̄·z. It writes f_p to f, unless nil.
func (r *Raker) mix(e *expert, z, w, f []float64) float64 {
	if e.average != nil { // There is one kernel.
		if f != nil {
			f[0] = loops.Dot(e.theta, z)
		}
		return loops.Dot(e.average, z)
	}
	value, total := 0.0, 0.0
	for p, v := range w {
		from, to := r.offsets[p], r.offsets[p+1]
		fp := loops.Dot(e.theta[from:to], z[from:to])
		if f != nil {
			f[p] = fp
		}
		value += float64(v * fp)
		total += v
	}
	return value / total
}

// learn takes the gradient steps and updates the weights, given r.z and the predictions in e.f.
func (r *Raker) learn(e *expert, step, y, weight float64) {
	o := &r.options
	top := math.Inf(-1)
	offsets, stable, logw := r.offsets[1:], r.stable[:len(e.f)], e.logw[:len(e.f)]
	from := 0
	for p, f := range e.f {
		to := offsets[p]
		s := r.safeStep(step, weight, stable[p])
		if o.Average {
			e.fold(s)
		}
		shrink := max(0, 1-float64(2*s*o.Lambda))
		norm := loops.Descend(e.theta[from:to], r.z[from:to], shrink, float64(s*o.Loss.Slope(f, y)))
		loss := float64(weight * (o.Loss.Value(f, y) + float64(o.Lambda*norm)))
		if e.descents != nil {
			e.descents[p].add(loss, weight, r.gradient(p, f, y, norm))
			r.cut = r.cut || s != float64(step*weight) || float64(2*s*o.Lambda) > 1
		}
		logw[p] -= float64(o.WeightStep * loss)
		top = max(top, logw[p])
		from = to
	}
	for p := range logw {
		logw[p] -= top
	}
}

// safeStep is the step times the weight, cut where θ would diverge, given the limit
// 1/(‖z‖²+λ).
//
// For the squared loss the step s maps θ to (I − 2s(λI + zzᵀ))θ + 2syz, which expands if
// s > 1/(‖z‖²+λ): steps are cut there. Half of that limit is the step to the minimum of the
// round's loss along z. A weight above 1 carries a step at most to the larger of that
// minimum and the step of weight 1. Every eigenvalue stays in [−1, 1], and after t rounds of
// labels within B
//
//	‖θ‖ ≤ 2 t B max min(1/‖z‖, s‖z‖)
//
// which is 2tB for ‖z‖ = 1. With t < 2^53, B = model.MaxMagnitude = 1e100 and weights up to
// 1e9, a weighted loss is below 1e243 and a sum of them, times a step of weights up to 1e9,
// below 1e270: nothing overflows.
//
// The other losses have a slope within ±1. Only the ridge could expand θ: learn cuts 1 − 2sλ at 0.
func (r *Raker) safeStep(step, weight, stable float64) float64 {
	s := float64(step * weight)
	if r.options.Loss != losses.Squared {
		return s
	}
	return min(s, max(step, stable/2), stable)
}
