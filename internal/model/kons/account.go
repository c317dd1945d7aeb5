package kons

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/losses"
)

// account is the loss account of one output. Labels in Hindsight, Energy and Regret are
// less the middle of the range. Hindsight and Regret stay 0 unless regret is tracked.
// Certificate is ½Σωh/η of a curved loss, Bound max √ω|y|.
type account struct {
	ledger.Account

	// outside counts the labels outside the range.
	outside uint64
	// heaviest is max ω.
	heaviest float64
	// clip is C, 0 while it is unknown.
	clip float64
	// unit is Ω, 1 before the first round. boundBefore is the bound of the certificate up to the
	// last change of Ω, base log det(A/αΩ) right after that change.
	unit, boundBefore, base float64
}

func newAccount(o *Options) account { return account{clip: o.clip(), unit: 1} }

// A weight above epochFactor times Ω becomes Ω.
const epochFactor = 4

// startsWeightEpoch reports whether the weight of a round becomes Ω.
func (a *account) startsWeightEpoch(weight float64) bool { return weight > epochFactor*a.unit }

// ridge is αΩ.
func (a *account) ridge(o *Options) float64 { return float64(o.Alpha * a.unit) }

// boundSince bounds the part of the certificate since the last change of Ω, given log det(A/αΩ).
func (a *account) boundSince(o *Options, logDet float64) float64 {
	inverse := o.inverse(a)
	return a.heaviest * float64(inverse*inverse) * (logDet - a.base) / 2
}

// startWeightEpoch changes Ω, given the previous log det(A/αΩ). The caller sets base.
func (a *account) startWeightEpoch(o *Options, unit, logDet float64) {
	a.boundBefore += math.Max(0, a.boundSince(o, logDet))
	a.unit = unit
}

// follow lets C follow a label, given less the middle too, or counts a label outside the
// range.
func (a *account) follow(o *Options, y, target float64) {
	magnitude := math.Abs(target)
	switch {
	case o.Loss != losses.Squared:
	case o.ranged():
		if y < o.Low || y > o.High {
			a.outside++
		}
	case magnitude > a.clip:
		a.clip = powerOfTwo(magnitude)
	}
}

// powerOfTwo is the smallest power of two ≥ v > 0.
func powerOfTwo(v float64) float64 {
	fraction, exponent := math.Frexp(v)
	if fraction == 0.5 {
		return v
	}
	return math.Ldexp(1, exponent)
}

// record accounts for a round, and returns its loss times the weight.
func (a *account) record(o *Options, prediction, y, weight float64) (loss float64) {
	loss = float64(weight * o.Loss.Value(prediction, y))
	target := y - o.middle()
	a.Add(loss, float64(weight*float64(target*target)), math.Abs(float64(math.Sqrt(weight)*y)))
	a.heaviest = math.Max(a.heaviest, weight)
	return loss
}

// track accounts for the residual ε of the second factor and the miss √ω(ŷ−y). The product
// is the difference of their squares without the cancellation.
func (a *account) track(residual, miss float64) {
	a.Hindsight.Add(float64(residual * residual))
	a.Regret.Add(float64((miss - residual) * (miss + residual)))
}

// figures are the Stats of an output, given log det(A/αΩ).
func (a *account) figures(o *Options, logDet float64, fixed bool) model.Stats {
	s := a.Stats()
	s.Certified, s.LogDeterminant = fixed && o.certified() && a.outside == 0, logDet
	if !o.TrackRegret {
		s.HindsightLoss, s.Regret = math.NaN(), math.NaN()
	}
	if s.Certified {
		s.Certificate = a.Certificate.Value()
		s.RegretBound = a.boundBefore + a.boundSince(o, logDet)
		if o.Loss == losses.Hinge { // ½Σηωġ²(2C)² ≤ 2C max ω Σ1/√t.
			s.RegretBound += 4 * a.clip * a.heaviest * math.Sqrt(float64(a.Rounds))
		}
	}
	return s
}

// holds reports whether certificate ≤ bound, whether the sums are plausible and, for a
// tracked regret, given ‖u‖² of the second factor, whether the identities hold. Where slopes are
// small beside 1/√η, log det(A/αΩ) has fewer digits than the certificate.
func (a *account) holds(o *Options, s model.Stats, tracked bool, explained float64) bool {
	tolerance := ledger.Tolerance(float64(a.Rounds))
	if !(s.Loss >= 0) || !finite(tolerance*(s.Loss+a.Energy.Value())) || !finite(s.LogDeterminant) {
		return false
	}
	inverse := o.inverse(a)
	slack := tolerance * (s.Loss + s.Certificate + float64(a.heaviest*float64(inverse*inverse)))
	if s.Certified && !(s.Certificate <= s.RegretBound*(1+tolerance)+slack) {
		return false
	}
	return !tracked || a.Reconciles(explained, tolerance)
}

func started() model.Stats { return model.Stats{Certified: true, CertificateOK: true} }

// finished removes the bound of a learner that is not certified.
func finished(s model.Stats) model.Stats {
	if !s.Certified {
		s.Certificate, s.RegretBound = 0, 0
	}
	return s
}

func (o *Options) accountBytes() int {
	const numbers = 2 + 2*5 + 6
	return 8 * numbers
}

// minDiagonal is the smallest diagonal entry of a factor relative to √αΩ, with room for
// rounding.
const minDiagonal = 1e-5

func (a *account) visit(v *codec.Visitor, o *Options, first *account) {
	v.Uint64(&a.Rounds, &a.outside)
	for _, s := range [...]*compensated.Sum{&a.Loss, &a.Certificate, &a.Hindsight, &a.Energy, &a.Regret} {
		v.Within(ledger.MaxSum, &s.High, &s.Low)
	}
	v.Within(ledger.MaxBound, &a.Bound)
	v.Within(model.MaxWeight, &a.heaviest)
	v.Within(2*model.MaxMagnitude, &a.clip)
	v.Within(model.MaxWeight, &a.unit)
	v.Within(ledger.MaxSum, &a.boundBefore, &a.base)
	if !v.Reading() {
		return
	}
	fixed := o.clip()
	power := a.clip == 0 || (a.clip > 0 && powerOfTwo(a.clip) == a.clip)
	if a.Rounds >= ledger.MaxRounds || a.outside > a.Rounds || a.Rounds != first.Rounds || a.Bound < 0 || a.heaviest < 0 ||
		(fixed > 0 && a.clip != fixed) || (fixed == 0 && !power) {
		v.Corrupt("an account of %d rounds, %d labels outside, label bound %g, heaviest weight %g, clip %g",
			a.Rounds, a.outside, a.Bound, a.heaviest, a.clip)
	}
	if (a.Rounds == 0) != (a.heaviest == 0) || (a.Rounds == 0 && a.unit != 1) || a.unit != first.unit ||
		a.unit < model.MinWeight || (a.Rounds > 0 && a.unit > a.heaviest) || !(a.boundBefore >= 0) {
		v.Corrupt("an account of %d rounds, heaviest weight %g, unit %g, bound %g", a.Rounds, a.heaviest, a.unit, a.boundBefore)
	}
}
