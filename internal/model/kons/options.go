// Package kons holds online Newton steps: learners of curved losses, and of the hinge loss, with a
// certificate.
//
// A learner keeps A_t = αI + Σ η_s ġ_s² φ_sφ_sᵀ and weights w; ġ = ℓ'(ŷ) is the slope
// of the loss at the prediction. A round with the input φ, the label y and the weight ω
// is
//
//	ȳ = w·φ,  q = φᵀA⁻¹φ,  ŷ = ȳ cut to [−C, C]
//	w ← w − (ȳ−ŷ)/q A⁻¹φ                the projection onto |w·φ| ≤ C in the norm of A
//	A ← A + ηωġ² φφᵀ,  w ← w − ωġ A⁻¹φ
//
// With m = Aw as right-hand side, a step moves m along φ alone, m ← m + (ηωġ²ŷ − ωġ)φ:
// the factor of least squares does it, with the row √(ηω)ġ φ of the label
// √(ηω)ġŷ − √(ω/η). For every f of the space with |f(x_t)| ≤ C at all inputs,
//
//	Σωℓ(ŷ) − Σωℓ(f) − (α/2)‖f‖² ≤ ½ Σ ωh/η ≤ max ω · log det(A/α)/(2η)
//
// with h the leverage of the row, η ≤ σ(C) and labels in [−C, C].
//
// The hinge loss has no curvature, σ = 0. Its step decays, η_t = 1/(C√t), and every round adds
// ½ηωġ²(ŷ−f)² at most to the left side: the certificate has ½Σηωġ²(|ŷ|+C)² besides, its bound
// 4C√t max ω (Theorem 1).
//
// The ridge follows the unit of the weights: α is multiplied by Ω, the weight of the first
// round. After a round with a weight above 4Ω, Ω is that weight: A ← A + P, 0 ≤ P ≤ α(Ω−Ω')I,
// m stays. This further penalty wᵀPw/2 lowers no minimum: the certificate holds for α of the
// last Ω. The determinant bounds Σh between two changes of A that are no steps. In the space of
// a kernel P is α(Ω−Ω')I. A factor of features would take r passes for this P, so it takes
// another P in O(r²): see ridged.
//
// Source: KONS (Calandriello, Lazaric and Valko, ICML 2017), eq. (1), Lemma 1 and
// Proposition 1, whose bound is twice what its proof gives; the step is the step of Hazan,
// Agarwal and Kale (2007).
package kons

import (
	"cmp"
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/regret"
)

// Options are the options of every learner of this package.
type Options struct {
	Loss losses.Loss
	// Outputs is the number of labels; 0 is 1. They share the features. Each has its own
	// matrix, because it has its own slopes.
	Outputs int
	// Low and High are the range of the labels, for the squared loss alone. The learner
	// learns labels less its middle, C is half its width, and a label outside counts as
	// the nearest end in the step. Low = High is no range: C is the smallest power of two that
	// no label has exceeded.
	Low, High float64
	// Clip is C of the other losses.
	Clip float64
	// Eta is η, 0 for σ(C). For the squared loss it wants a range, of the hinge loss it is 0.
	Eta float64
	// Alpha is the ridge α > 0.
	Alpha float64
	// TrackRegret keeps a second factor for the regret of the squared loss.
	TrackRegret bool

	// given is 1/√η unless it follows the labels, else 0.
	given float64
	// raised is how many ridges of a factor a round raises, 0 for as many as are short.
	raised int
}

// completed completes options, and panics if one is out of range.
func completed(o Options) Options {
	o.Outputs = max(o.Outputs, 1)
	squared := o.Loss == losses.Squared
	if o.Loss < losses.Squared || o.Loss > losses.SquaredHinge || (o.Loss == losses.Hinge && o.Eta > 0) || !(o.Alpha > 0) || !(o.Eta >= 0) || !(o.High >= o.Low) ||
		squared != (o.Clip == 0) || (!squared && (o.ranged() || o.TrackRegret || !(o.Clip > 0))) ||
		(squared && !o.ranged() && o.Eta > 0) {
		panic(fmt.Sprintf("kons: options %+v", o))
	}
	switch c := o.clip(); {
	case o.Eta > 0:
		o.given = 1 / math.Sqrt(o.Eta)
	case o.Loss == losses.Logistic:
		o.given = exponential.Of(c / 2)
	case o.Loss == losses.SquaredHinge:
		o.given = 1 / math.Sqrt(Curvature(o.Loss, c))
	}
	return o
}

func (o *Options) ranged() bool { return o.Low != o.High }

// middle is the middle of the range, or 0.
func (o *Options) middle() float64 {
	if !o.ranged() {
		return 0
	}
	return o.Low/2 + o.High/2
}

// clip is C, 0 if it follows the labels.
func (o *Options) clip() float64 {
	if o.ranged() {
		return o.High/2 - o.Low/2
	}
	return o.Clip
}

// inverse is 1/√η of the next round of an account with C > 0. For the squared loss it has the
// unit of the label: no square overflows, and a factor of two in the labels changes no digit.
func (o *Options) inverse(a *account) float64 {
	switch {
	case o.given > 0:
		return o.given
	case o.Loss == losses.Hinge:
		return math.Sqrt(float64(a.clip * math.Sqrt(float64(a.Rounds+1))))
	}
	return float64(2 * math.Sqrt2 * a.clip)
}

// certified reports whether the theorem applies in a fixed space to labels within the range.
func (o *Options) certified() bool {
	c := o.clip()
	return c > 0 && (o.Eta == 0 || o.Eta <= Curvature(o.Loss, c)*(1+0x1p-40))
}

func (o *Options) check(y []float64, weight float64) error {
	return cmp.Or(o.Loss.CheckLabels(y, o.Outputs), model.CheckWeight(weight))
}

// step is the change of an output by a round.
type step struct {
	// predicted is ŷ, about the middle.
	predicted float64
	// by is (ȳ−ŷ)/q, 0 if nothing was cut.
	by float64
	// slope is √(ηω)ġ, label √(ηω)ġŷ − √(ω/η). A slope of 0 has no row.
	slope, label float64
	// width is √(ω/η).
	width float64
	// uncurved is ½ηωġ²(|ŷ|+C)² for the hinge loss, which has no curvature, and 0 for the other losses.
	uncurved float64
}

// step is the change by a round, given ȳ and q. It lets C follow the label.
func (o *Options) step(a *account, mean, q, y, weight float64) step {
	s := step{predicted: clamp(mean, a.clip)}
	if by := (mean - s.predicted) / q; s.predicted != mean && finite(by) {
		s.by = by
	}
	target := y - o.middle()
	a.follow(o, y, target)
	if a.clip == 0 {
		return s // All labels so far are 0, and so is ŷ.
	}
	root, inverse := math.Sqrt(weight), o.inverse(a)
	s.width = float64(root * inverse)
	if o.Loss == losses.Squared {
		target = clamp(target, a.clip)
	}
	s.slope = float64(root * (o.Loss.Slope(s.predicted, target) / inverse))
	s.label = float64(s.slope*s.predicted) - s.width
	if o.Loss == losses.Hinge {
		reach := math.Abs(s.predicted) + a.clip
		s.uncurved = float64(s.slope*s.slope) * float64(reach*reach) / 2
	}
	return s
}

// certificate returns the term of the round in the certificate, given the leverage h of the round: ½ωh/η for a curved loss.
func (s *step) certificate(leverage float64) float64 {
	return float64(float64(s.width*s.width)*leverage/2) + s.uncurved
}

func clamp(v, c float64) float64 {
	switch {
	case v > c:
		return c
	case v < -c:
		return -c
	case math.IsNaN(v):
		return 0
	}
	return v
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// leverage is the larger of largest and ηq/(1+ηq), NoLeverage while no output has a C.
func (o *Options) leverage(largest float64, a *account, q float64) float64 {
	if a.clip == 0 {
		return largest
	}
	if !(q > 0) {
		return math.Max(largest, 0)
	}
	inverse := o.inverse(a)
	return math.Max(largest, q/(q+float64(inverse*inverse)))
}

// class is the class of the certificate: functions within the range or the clip, with λ = αΩ/2. For the
// squared loss without a range it has no limit, and the λ = αΩ of a tracked regret.
func (o *Options) class(a *account) regret.Class {
	c := regret.Class{Loss: o.Loss, Lambda: a.ridge(o) / 2, Limit: o.clip(), Middle: o.middle()}
	if o.Loss == losses.Squared && !o.ranged() {
		c.Lambda = a.ridge(o)
	}
	return c
}

// Class is the functions of the features that the certificate is against.
func (n *Newton) Class() (c regret.Class, known bool) {
	c = n.o.class(&n.outputs[0].account)
	c.Maps = []feature.Map{n.features}
	return c, true
}

// Class is the functions of the kernel's space that the certificate is against.
func (e *Exact) Class() (c regret.Class, known bool) {
	c = e.o.class(&e.outputs[0].account)
	c.Kernel = &e.o.Kernel
	return c, true
}

// Curvature is the largest σ for which, for all predictions f and g in [−c, c], c > 0,
// and every label,
//
//	ℓ(g) ≥ ℓ(f) + ℓ'(f)(g−f) + (σ/2)(ℓ'(f)(g−f))²
//
// which is Assumption 2 of KONS (ICML 2017). The labels of the squared loss are in
// [−c, c]. The hinge loss has no curvature.
//
//	squared        1/(8c²)
//	logistic       exp(−c)
//	squared hinge  1/(2(1+c)²) for c ≤ 1, else (3c−1)/(8c²(1+c))
func Curvature(l losses.Loss, c float64) float64 {
	switch l {
	case losses.Logistic:
		return exponential.Of(-c)
	case losses.SquaredHinge:
		if c <= 1 {
			return 1 / (2 * float64((1+c)*(1+c)))
		}
		return (float64(3*c) - 1) / (8 * float64(c*c) * (1 + c))
	case losses.Hinge:
		return 0
	case losses.Squared:
		fallthrough
	default:
		return 1 / (8 * float64(c*c))
	}
}
