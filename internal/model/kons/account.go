package kons

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/losses"
)

// account is what a learner knows of its losses in one output. Labels of hindsight,
// energy and regret are about the middle of the range.
type account struct {
	n uint64
	// left counts the labels that left the range.
	left uint64
	// loss is Σωℓ(ŷ), certificate ½Σωh/η, hindsight L*, energy Σωy², regret
	// loss − L* without the cancellation of the two sums. Hindsight and regret stay 0
	// unless regret is tracked.
	loss, certificate, hindsight, energy, regret compensated.Sum
	// bound is max √ω|y|, heaviest max ω.
	bound, heaviest float64
	// clip is C, 0 while it is not known.
	clip float64
	// unit is Ω; 1 before the first round. closed is the bound of the certificate up to the
	// last change of Ω, base log det(A/αΩ) after it.
	unit, closed, base float64
}

func newAccount(o *Options) account { return account{clip: o.clip(), unit: 1} }

// outgrown is how many times Ω a weight is above that becomes Ω.
const outgrown = 4

// outgrows says that the weight of a round becomes Ω.
func (a *account) outgrows(o *Options, weight float64) bool {
	return !o.Unrevised && weight > outgrown*a.unit
}

// ridge is αΩ.
func (a *account) ridge(o *Options) float64 { return float64(o.Alpha * a.unit) }

// open bounds the part of the certificate since the last change of Ω, given log det(A/αΩ).
func (a *account) open(o *Options, logDet float64) float64 {
	inverse := o.inverse(a.clip)
	return a.heaviest * float64(inverse*inverse) * (logDet - a.base) / 2
}

// become changes Ω, given log det(A/αΩ) of before. Base is left to the caller.
func (a *account) become(o *Options, unit, logDet float64) {
	a.closed += math.Max(0, a.open(o, logDet))
	a.unit = unit
}

// follow lets C follow a label, given less the middle too, or counts a label that left the
// range.
func (a *account) follow(o *Options, y, target float64) {
	magnitude := math.Abs(target)
	switch {
	case o.Loss != losses.Squared:
	case o.ranged():
		outside := y < o.Low || y > o.High
		if o.Unrevised { // Rounding took some ends of ranges beyond C.
			outside = magnitude > a.clip
		}
		if outside {
			a.left++
		}
	case magnitude > a.clip:
		a.clip = powerOfTwo(magnitude)
	}
}

// powerOfTwo is the least power of two that is not below v > 0.
func powerOfTwo(v float64) float64 {
	fraction, exponent := math.Frexp(v)
	if fraction == 0.5 {
		return v
	}
	return math.Ldexp(1, exponent)
}

// add accounts for a round with its prediction, and returns the loss, times the weight.
func (a *account) add(o *Options, prediction, y, weight float64) (loss float64) {
	loss = float64(weight * o.Loss.Value(prediction, y))
	target := y - o.middle()
	a.n++
	a.loss.Add(loss)
	a.energy.Add(float64(weight * float64(target*target)))
	a.bound = math.Max(a.bound, math.Abs(float64(math.Sqrt(weight)*y)))
	a.heaviest = math.Max(a.heaviest, weight)
	return loss
}

// track accounts for what the second factor said of a round: the residual ε, and
// √ω(ŷ−y). Their squares' difference is (ŷ−y)²ω − ε² without the cancellation.
func (a *account) track(residual, miss float64) {
	a.hindsight.Add(float64(residual * residual))
	a.regret.Add(float64((miss - residual) * (miss + residual)))
}

// figures are the part of Stats that an account and log det(A/αΩ) know.
func (a *account) figures(o *Options, logDet float64, fixed bool) model.Stats {
	s := model.Stats{
		Observations: a.n, Loss: a.loss.Value(), HindsightLoss: math.NaN(), Regret: math.NaN(),
		Certified: fixed && o.certified() && a.left == 0, LogDeterminant: logDet, LabelBound: a.bound,
	}
	if o.TrackRegret {
		s.HindsightLoss, s.Regret = a.hindsight.Value(), a.regret.Value()
	}
	if s.Certified {
		s.Certificate = a.certificate.Value()
		s.RegretBound = a.closed + a.open(o, logDet)
	}
	return s
}

// The identities are allowed a rounding of leastTolerance + n ε, relative to the sums
// that they are made of: see package awv.
const (
	leastTolerance = 1e-8
	epsilon        = 0x1p-52
)

// holds tells whether certificate ≤ bound, and whether the sums can be those of
// losses; with a tracked regret, given ‖u‖² of the second factor, whether
// regret = loss − L* and L* = Σωy² − ‖u‖².
func (a *account) holds(s model.Stats, tracked bool, explained float64) bool {
	tolerance := leastTolerance + epsilon*float64(a.n)
	slack := tolerance * (s.Loss + a.energy.Value())
	if !(s.Loss >= 0) || !finite(slack) || !finite(s.LogDeterminant) {
		return false
	}
	if s.Certified && !(s.Certificate <= s.RegretBound*(1+tolerance)+tolerance*(s.Loss+s.Certificate)) {
		return false
	}
	return !tracked || (math.Abs(s.Loss-s.HindsightLoss-s.Regret) <= slack &&
		math.Abs(a.energy.Value()-explained-s.HindsightLoss) <= slack)
}

// sumUp adds the figures of an output to those of the outputs before.
func sumUp(total *model.Stats, s model.Stats) {
	total.Observations = s.Observations
	total.Loss += s.Loss
	total.HindsightLoss += s.HindsightLoss
	total.Regret += s.Regret
	total.Certified = total.Certified && s.Certified
	total.Certificate += s.Certificate
	// A determinant within rounding of 1 has lost digits that the certificate has.
	total.RegretBound += math.Max(s.RegretBound, s.Certificate)
	total.LogDeterminant += s.LogDeterminant
	total.LabelBound = math.Hypot(total.LabelBound, s.LabelBound)
}

// started are the figures that others are added to.
func started() model.Stats { return model.Stats{Certified: true, CertificateOK: true} }

// finished takes back what a learner without the theorem does not tell.
func finished(s model.Stats) model.Stats {
	if !s.Certified {
		s.Certificate, s.RegretBound = 0, 0
	}
	return s
}

func (a *account) sums() [5]*compensated.Sum {
	return [5]*compensated.Sum{&a.loss, &a.certificate, &a.hindsight, &a.energy, &a.regret}
}

// accountBytes is what appendBinary appends.
func (o *Options) accountBytes() int {
	numbers := 2 + 2*5 + 3
	if !o.Unrevised {
		numbers += 3
	}
	return 8 * numbers
}

func (a *account) appendBinary(o *Options, dst []byte) []byte {
	dst = codec.AppendUint64(codec.AppendUint64(dst, a.n), a.left)
	for _, s := range a.sums() {
		dst = codec.AppendFloats(dst, s.High, s.Low)
	}
	dst = codec.AppendFloats(dst, a.bound, a.heaviest, a.clip)
	if o.Unrevised {
		return dst
	}
	return codec.AppendFloats(dst, a.unit, a.closed, a.base)
}

// Bounds of the numbers in a state. A round of a label within 1e100 and a weight
// within 1e9 adds at most 1e211 to a sum, and 1e115 to a label of a row.
const (
	maxSum        = 1e240
	maxBound      = 1e105 // Of √ω|y|.
	maxEntry      = 1e130 // Of a factor: see package awv.
	leastDiagonal = 1e-5  // Of √α, with room for rounding.
	maxRounds     = 1 << 62
)

// readAccount reads the account of an output. It fails unless it has as many rounds
// as the first, and its numbers are within bounds.
func readAccount(r *codec.Reader, o *Options, first *account) (account, error) {
	a := newAccount(o)
	a.n, a.left = r.Uint64(), r.Uint64()
	for _, s := range a.sums() {
		r.Within(maxSum, &s.High, &s.Low)
	}
	r.Within(maxBound, &a.bound)
	r.Within(model.MaxWeight, &a.heaviest)
	r.Within(2*model.MaxMagnitude, &a.clip)
	if !o.Unrevised {
		r.Within(model.MaxWeight, &a.unit)
		r.Within(maxSum, &a.closed, &a.base)
	}
	if err := r.Err(); err != nil {
		return a, fmt.Errorf("account: %w", err)
	}
	fixed := o.clip()
	power := a.clip == 0 || (a.clip > 0 && powerOfTwo(a.clip) == a.clip)
	if a.n >= maxRounds || a.left > a.n || (first != nil && a.n != first.n) || a.bound < 0 || a.heaviest < 0 ||
		(fixed > 0 && a.clip != fixed) || (fixed == 0 && !power) {
		return a, fmt.Errorf("an account of %d rounds, %d labels outside, label bound %g, heaviest weight %g, clip %g: %w",
			a.n, a.left, a.bound, a.heaviest, a.clip, model.ErrCorruptState)
	}
	if (a.n == 0) != (a.heaviest == 0) || (a.n == 0 && a.unit != 1) || (first != nil && a.unit != first.unit) ||
		a.unit < model.MinWeight || (!o.Unrevised && a.n > 0 && a.unit > a.heaviest) || !(a.closed >= 0) {
		return a, fmt.Errorf("an account of %d rounds, heaviest weight %g, unit %g, bound %g: %w",
			a.n, a.heaviest, a.unit, a.closed, model.ErrCorruptState)
	}
	return a, nil
}
