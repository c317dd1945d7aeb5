// Package raker holds the first-order learners over random features: Raker,
// online gradient descent in several kernels at once with exponential weights
// over them, its one-kernel case FOGD, and AdaRaker, which hedges over Rakers
// of many step sizes.
//
// A round costs O(PD) for P kernels of D frequencies, where the second-order forecaster of
// package awv costs O(r²). With the squared loss and TrackRegret, Report has a certificate.
package raker

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/mix"
)

// Raker runs online gradient descent in every kernel and mixes the kernels by
// exponential weights. Per round, with z_p = z_p(x):
//
//	f_p = θ_p·z_p,  ŷ = Σ w_p f_p / Σ w_p
//	θ_p ← θ_p − η ∇(C(θ_p·z_p, y) + λ‖θ_p‖²)
//	w_p ← w_p exp(−η_w (C(f_p, y) + λ‖θ_p‖²))
//
// Both losses are taken before the step, and times the observation's weight. With one
// kernel this is FOGD, Fourier online gradient descent. Several outputs are as many Rakers
// over the same features.
//
// FOGD may be SGM, the stochastic gradient method. With the decay ϑ and s_t the step of
// round t after all cuts, see safeStep,
//
//	η_t = η t^−ϑ,  a ← a + s_t,  θ̄ ← θ̄ + (θ − θ̄) s_t/a,  then the step on θ
//
// and ŷ = θ̄·z if it averages.
//
// Source: AdaRaker (JMLR 2019), Algorithm 1, eqs (18), (19), (21). The
// gradients are those of the losses, see Loss. SGM: Camoriano, thesis (Genoa, 2017),
// chapter 6, with the average of eq. (6.4).
type Raker struct {
	core
	// experts has an entry each output.
	experts []expert
	// exponentials are Observe's scratch: the weights of the kernels.
	exponentials []float64
}

// NewRaker is a Raker before its first observation. It panics unless there are maps, all of
// one dimension, if an option is out of range, and for SGM over several kernels.
func NewRaker(maps []feature.Map, o Options) *Raker {
	if (o.Average || o.Decay > 0) && len(maps) != 1 {
		panic(fmt.Sprintf("raker: a decay of %g, average %t, of %d kernels", o.Decay, o.Average, len(maps)))
	}
	r := &Raker{core: newCore(maps, o)}
	r.experts = r.newExperts()
	return r
}

// Predict answers ŷ, for a loss of classes the score, whose sign is the class. It reads the
// state and allocates nothing once its scratch is warm. There are no standard error and no
// leverage.
func (r *Raker) Predict(p *model.Prediction, x []float64) error {
	if err := r.checkFeatures(x); err != nil {
		return err
	}
	buffer := r.scratch.Get().(*[]float64) // The pool holds nothing else.
	defer r.scratch.Put(buffer)
	z, room := r.split(*buffer)
	r.features(z, x)
	r.answer(p)
	for j := range r.experts {
		e := &r.experts[j]
		if r.options.Average {
			p.Values[j] = loops.Dot(e.average, z)
			continue
		}
		p.Values[j] = r.mix(e, z, e.appendWeights(room), nil)
	}
	return nil
}

// Observe learns (x, y) by one gradient step a kernel: one feature map and, for each
// output, two passes over the features, and with TrackRegret what moments.add costs. It
// allocates nothing. The regret of the outcome is NaN.
func (r *Raker) Observe(o *model.Outcome, x, labels []float64, weight float64) error {
	if err := r.Check(x, labels, weight); err != nil {
		return err
	}
	r.prepare(x)
	r.outcome(o)
	step := r.step()
	for j, y := range labels {
		e := &r.experts[j]
		r.exponentials = e.appendWeights(r.exponentials[:0])
		prediction := r.mix(e, r.z, r.exponentials, e.f)
		if r.options.Average {
			prediction = loops.Dot(e.average, r.z)
		}
		r.learn(e, step, y, weight)
		r.record(o, j, y, weight, prediction)
	}
	r.finish(labels, weight)
	return nil
}

// step is η_t of the next round. Its power has the same bits on every target.
func (r *Raker) step() float64 {
	if r.options.Decay == 0 {
		return r.options.Step
	}
	power := [1]float64{-float64(r.options.Decay * exponential.Log(float64(r.accounts[0].Rounds+1)))}
	exponential.Exp(power[:], power[:])
	return float64(r.options.Step * power[0])
}

// AppendWeights appends the mean weights of the kernels over the outputs, none for one kernel.
func (r *Raker) AppendWeights(dst []float64) []float64 {
	n := len(r.maps)
	if n == 1 {
		return dst
	}
	dst, mean := withRoom(dst, n)
	for j := range r.experts {
		addShares(mean, r.experts[j].appendWeights(dst)[len(dst):], len(r.experts))
	}
	return dst
}

// withRoom grows dst by n zeros, with room for as many more.
func withRoom(dst []float64, n int) (grown, numbers []float64) {
	from := len(dst)
	dst = slices.Grow(dst, 2*n)[:from+n]
	clear(dst[from:])
	return dst, dst[from:]
}

// addShares adds the weights, divided by their sum and by the number of outputs.
func addShares(mean, weights []float64, outputs int) {
	mix.Normalize(weights)
	for k, w := range weights {
		mean[k] += w / float64(outputs)
	}
}

// WeightNames are the names of the kernels, none for one kernel.
func (r *Raker) WeightNames() []string {
	if len(r.maps) == 1 {
		return nil
	}
	names := make([]string, len(r.maps))
	for p := range names {
		names[p] = "kernel_" + strconv.Itoa(p)
	}
	return names
}

// Report has the regret, and the certificate of the best kernel.
func (r *Raker) Report(o model.ReportOptions) model.Report {
	return r.report(o, func(output int) []descender {
		return []descender{{&r.experts[output], r.options.Step}}
	})
}

// Stats has no regret: Report solves for it.
func (r *Raker) Stats() model.Stats { return r.stats(r.Size()) }

// Size is the memory of the state.
func (r *Raker) Size() uint64 { return r.fixedBytes + r.expertBytes }

// expert is one Raker: its parameters and the logarithms of its weights.
type expert struct {
	// theta holds θ_p of all kernels, one after the other.
	theta []float64
	// logw holds log w_p less the largest, so that the weights neither underflow nor lose
	// digits.
	logw []float64
	// average is θ̄ and steps the sum a of the steps, for SGM that averages.
	average []float64
	steps   float64
	// descents has an entry each kernel, none unless the learner certifies.
	descents []descent
	// f is scratch: f_p of the round.
	f []float64
}

func (c *core) newExpert() expert {
	e := expert{
		theta: make([]float64, c.total()),
		logw:  make([]float64, len(c.maps)),
		f:     make([]float64, len(c.maps)),
	}
	if c.options.Average {
		e.average = make([]float64, c.total())
	}
	if c.certifies() {
		e.descents = make([]descent, len(c.maps))
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

// newExperts are one for each output.
func (c *core) newExperts() []expert {
	experts := make([]expert, c.options.Outputs)
	for j := range experts {
		experts[j] = c.newExpert()
	}
	return experts
}

// restart is θ = 0 and uniform weights.
func (e *expert) restart() {
	clear(e.theta)
	clear(e.logw)
}

// appendWeights appends the weights w_p to dst.
func (e *expert) appendWeights(dst []float64) []float64 {
	from := len(dst)
	dst = append(dst, e.logw...)
	exponential.Exp(dst[from:], dst[from:])
	return dst
}

// mix is Σ w_p f_p / Σ w_p for the weights w. It writes f_p to f, unless nil.
func (c *core) mix(e *expert, z, w, f []float64) float64 {
	value, total := 0.0, 0.0
	for p, v := range w {
		from, to := c.offsets[p], c.offsets[p+1]
		fp := loops.Dot(e.theta[from:to], z[from:to])
		if f != nil {
			f[p] = fp
		}
		value += float64(v * fp)
		total += v
	}
	return value / total
}

// learn takes the gradient steps and updates the weights, given the features in c.z and the
// predictions in e.f.
func (c *core) learn(e *expert, step, y, weight float64) {
	o := &c.options
	top := math.Inf(-1)
	offsets, stable, logw := c.offsets[1:], c.stable[:len(e.f)], e.logw[:len(e.f)]
	from := 0
	for p, f := range e.f {
		to := offsets[p]
		s := c.safeStep(step, weight, stable[p])
		if o.Average {
			e.fold(s)
		}
		shrink := max(0, 1-float64(2*s*o.Lambda))
		norm := loops.Descend(e.theta[from:to], c.z[from:to], shrink, float64(s*o.Loss.Slope(f, y)))
		loss := float64(weight * (o.Loss.Value(f, y) + float64(o.Lambda*norm)))
		if e.descents != nil {
			e.descents[p].add(loss, weight, c.gradient(p, f, y, norm))
			c.cut = c.cut || s != float64(step*weight) || float64(2*s*o.Lambda) > 1
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
// The other losses have a slope within ±1. Only the ridge could expand θ; learn cuts its
// factor 1 − 2sλ at 0.
func (c *core) safeStep(step, weight, stable float64) float64 {
	s := float64(step * weight)
	if c.options.Loss != losses.Squared {
		return s
	}
	return min(s, max(step, stable/2), stable)
}
