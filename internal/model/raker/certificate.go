package raker

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/ledger"
)

// descent sums up the gradient steps of an expert in one kernel.
type descent struct {
	// loss is L_p = Σω(C(f_p,y) + λ‖θ_p‖²), slopes G_p = Σω²‖∇_p‖², ∇_p the gradient of the
	// bracket. Both count from the first round of the expert.
	loss, slopes float64
}

func (d *descent) add(loss, weight, gradient float64) {
	d.loss += loss
	d.slopes += float64(weight * weight * gradient)
}

func (d *descent) visit(v *codec.Visitor) {
	v.Within(math.MaxFloat64, &d.loss, &d.slopes)
	if v.Reading() && !(d.loss >= 0 && d.slopes >= 0) {
		v.Corrupt("a descent with the loss %g and the slopes %g", d.loss, d.slopes)
	}
}

// gradient is ‖∇(C(θ·z,y) + λ‖θ‖²)‖² of kernel p, given f = θ·z and ‖θ‖².
func (r *Raker) gradient(p int, f, y, norm float64) float64 {
	slope, shrink := r.options.Loss.Slope(f, y), 2*r.options.Lambda
	square := math.Max(0, 1/r.stable[p]-r.options.Lambda) // ‖z_p‖².
	return math.Max(0, float64(slope*slope*square)+float64(2*slope*shrink*f)+float64(shrink*shrink*norm))
}

// certificate bounds the regret against θ̂ of the best kernel p of each output. By eq. (46), for
// every expert with step η,
//
//	L_p − Σω(C(θ̂·z_p,y) + λ‖θ̂‖²) ≤ ‖θ̂‖²/2η + (η/2) G_p
//
// and what the learner lost beyond L_p is known. For one Raker the paper bounds it by
// ln P/η_w and the gaps of the mixture. The regret has λ‖θ̂‖² once, eq. (46) has it every round:
//
//	regret ≤ loss − L_p + ‖θ̂‖²/2η + (η/2) G_p + (λΩ − λ)‖θ̂‖²,  Ω = Σω
//
// The expert with the smallest bound counts. Rounds before an expert's first one have losses of 0
// in L_p, which no loss of θ̂ is below.
//
// Source: AdaRaker (JMLR 2019), Lemmas 1 and 3.
func (r *Raker) certificate(best *solution) (sum float64) {
	for j := range r.accounts {
		least, norm, p := math.Inf(1), best.norms[j], best.kernels[j]
		for i := range r.outputs[j] {
			e := &r.outputs[j][i]
			d := &e.descents[p]
			least = math.Min(least, -d.loss+norm/(2*e.step)+float64(e.step/2*d.slopes))
		}
		sum += r.accounts[j].Loss.Value() + least + float64(r.options.Lambda*r.weights*norm) - best.penalties[j]
	}
	return sum
}

// covers reports whether the regret is at most the certificate, to the rounding of their sums.
func (r *Raker) covers(certificate, regret, loss float64) bool {
	scale := loss
	for j := range r.accounts {
		scale += r.accounts[j].Energy.Value()
	}
	return regret <= certificate+ledger.Tolerance(float64(r.accounts[0].Rounds))*scale
}
