package awv

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/qr"
)

// account is what a forecaster knows of its losses in one label column. With
// a forgetting factor f < 1 every sum discounts the round s at round t by
// f^(t−s).
type account struct {
	n uint64
	// loss is Σ(y−ŷ)², hindsight L* = Σε², energy Σy².
	loss, hindsight, energy compensated.Sum
	// certificate is C = Σ y² h, h = q/(1+q) the leverage; of a round of weight ω see
	// weigh.
	certificate compensated.Sum
	// regret is Σ h (y² − γ²p²). Each term equals (y−ŷ)² − ε² exactly, but
	// without the cancellation of two sums that both grow with t: it keeps
	// its digits when regret is a small part of the loss.
	regret compensated.Sum
	// bound is B = max |y| Beta(ω). From unbounded on there is no bound.
	bound float64
}

// unbounded is above every B of weights with a Beta.
const unbounded = maxBound

// Beta is what a label counts times in B if its weight is ω: 1/√(2−ω). It is infinite for
// weights of 2 and more, less 1e-9, whose rounds have no bound.
func Beta(weight float64) float64 {
	left := 2 - weight
	if left < 1/model.MaxWeight {
		return math.Inf(1)
	}
	return 1 / math.Sqrt(left)
}

// add accounts for one observation, given its label y and weight ω; the row's ridge
// prediction p of before and its residual ε, both times √ω; and the rotation that took
// √ω(z, y) in. It returns the prediction that Predict gave, which knows no weight, and its
// loss.
func (a *account) add(y, p, residual, weight float64, rotation qr.Rotation) (prediction, loss float64) {
	if weight != 1 {
		return a.weigh(y, p, residual, weight, rotation)
	}
	// The conversions keep the compiler from fusing a product with a later
	// sum, also across statements.
	prior := float64(rotation.Gamma * p)
	prediction = float64(rotation.Gamma * prior)
	miss := y - prediction
	loss = float64(miss * miss)
	squared := float64(y * y)
	a.learned(loss, residual, y, math.Abs(y))
	a.certificate.Add(float64(squared * rotation.Leverage))
	a.regret.Add(float64(rotation.Leverage * (squared - float64(prior*prior))))
	return prediction, loss
}

// weigh is add of a weight ω ≠ 1. With q = zᵀA⁻¹z of the features without their weight,
// ŷ = p/(1+q) and the leverage h = ωq/(1+ωq) of the row, the round adds to the regret
//
//	ω(y−ŷ)² − ω(y−p)²/(1+ωq) = h (ω(y−ŷ)² + 2ŷ(y−ŷ) − qŷ²)
//
// which is concave in ŷ while ω < 2+q, and then at most ω y² q/(2+q−ω), its largest value.
// While ω < 2 this is at most y² h/(2−ω), and Σh ≤ log det(A/λ).
func (a *account) weigh(y, p, residual, weight float64, rotation qr.Rotation) (prediction, loss float64) {
	root := math.Sqrt(weight)
	q := rotation.Leverage / (float64(rotation.Gamma*rotation.Gamma) * weight)
	prediction = p / root / (1 + q)
	miss := y - prediction
	loss = float64(weight * float64(miss*miss))
	bound := float64(unbounded)
	if beta := Beta(weight); !math.IsInf(beta, 1) {
		bound = float64(math.Abs(y) * beta)
	}
	a.learned(loss, residual, float64(root*y), bound)
	excess := loss + float64(prediction*(float64(2*miss)-float64(q*prediction)))
	a.regret.Add(float64(rotation.Leverage * excess))
	if left := 2 - weight + q; weight < 2 {
		a.certificate.Add(float64(float64(weight*float64(y*y)) * (q / left)))
	}
	return prediction, loss
}

// learned counts a round of a loss, a residual and a label, both times √ω, and its B.
func (a *account) learned(loss, residual, label, bound float64) {
	a.n++
	a.loss.Add(loss)
	a.hindsight.Add(float64(residual * residual))
	a.energy.Add(float64(label * label))
	a.bound = math.Max(a.bound, bound)
}

// discount multiplies every sum by f.
func (a *account) discount(f float64) {
	for _, s := range a.sums() {
		s.Scale(f)
	}
}

// raise adds to L* what was added to the penalty. Regret falls by as much.
func (a *account) raise(by float64) {
	a.hindsight.Add(by)
	a.regret.Add(-by)
}

// deviation is σ̂ = sqrt(L*/n), 0 before the first observation.
func (a *account) deviation(forgetting float64) float64 {
	if a.n == 0 {
		return 0
	}
	return math.Sqrt(math.Max(a.hindsight.Value(), 0) / a.rounds(forgetting))
}

// rounds is Σ f^(t−s), which is t when nothing is forgotten.
func (a *account) rounds(forgetting float64) float64 {
	n := float64(a.n)
	if forgetting < 1 {
		return -math.Expm1(n*math.Log(forgetting)) / (1 - forgetting)
	}
	return n
}

// tolerance is the rounding that the identities are allowed.
func (a *account) tolerance(forgetting float64) float64 {
	return leastTolerance + epsilon*a.rounds(forgetting)
}

// summarize adds up the figures of every label column, given log det(A/λ) and
// each column's ‖u‖², for a forgetting factor. Without the theorem, and where a B is
// unbounded, there is no bound, and CertificateOK speaks of the identities alone. It
// allocates nothing.
func summarize(columns []account, logDet float64, explained func(column int) float64, certified bool, forgetting float64) model.Stats {
	tolerance := columns[0].tolerance(forgetting)
	for j := range columns {
		certified = certified && columns[j].bound < unbounded
	}
	total := model.Stats{Certified: certified, CertificateOK: true, LogDeterminant: logDet}
	for j := range columns {
		a := &columns[j]
		s := model.Stats{
			Loss:          a.loss.Value(),
			HindsightLoss: a.hindsight.Value(),
			Regret:        a.regret.Value(),
			Certified:     certified,
		}
		if certified {
			s.Certificate = a.certificate.Value()
			s.RegretBound = a.bound * a.bound * logDet
		}
		total.Observations = a.n
		total.Loss += s.Loss
		total.HindsightLoss += s.HindsightLoss
		total.Regret += s.Regret
		total.Certificate += s.Certificate
		// A determinant within rounding of 1 has lost digits that C has.
		total.RegretBound += math.Max(s.RegretBound, s.Certificate)
		if a.bound < unbounded {
			total.LabelBound = math.Hypot(total.LabelBound, a.bound)
		}
		total.CertificateOK = total.CertificateOK && a.holds(s, explained(j), tolerance)
	}
	return total
}

// The identities are allowed a rounding of leastTolerance + n ε, relative to
// the sums they are made of. Each of the n rotations of a factor rounds its
// entries by a few ε at most, and these errors add up.
//
// Source: Higham, Accuracy and Stability of Numerical Algorithms (2002),
// Theorem 19.10.
const (
	leastTolerance = 1e-8
	epsilon        = 0x1p-52
)

// holds tells whether the theorem regret ≤ C ≤ B² log det(A/λ) and the
// identities regret = loss − L* and L* = Σy² − ‖u‖² hold to the tolerance.
// The sums and the factor were built separately, so corruption of either shows.
//
// Source: PKAWV, HAL 2019, Proposition 2.1; Cesa-Bianchi and Lugosi, Theorem
// 11.8.
func (a *account) holds(s model.Stats, explained, tolerance float64) bool {
	slack := tolerance * (s.Loss + a.energy.Value())
	theorem := s.Regret <= s.Certificate+slack && s.Certificate <= s.RegretBound*(1+tolerance)+slack
	return (theorem || !s.Certified) &&
		math.Abs(s.Loss-s.HindsightLoss-s.Regret) <= slack &&
		math.Abs(a.energy.Value()-explained-s.HindsightLoss) <= slack
}

func (a *account) sums() []*compensated.Sum {
	return []*compensated.Sum{&a.loss, &a.hindsight, &a.energy, &a.certificate, &a.regret}
}

func (a *account) appendBinary(dst []byte) []byte {
	dst = codec.AppendUint64(dst, a.n)
	for _, s := range a.sums() {
		dst = codec.AppendFloats(dst, s.High, s.Low)
	}
	return codec.AppendFloats(dst, a.bound)
}

// accountBytes is what appendBinary appends.
const accountBytes = 8 + 5*16 + 8

// Bounds of the numbers in a state. Labels are within model.MaxMagnitude,
// weights within model.MaxWeight and rounds fewer than 2^53, so that Σwy² and
// every sum above is below 1e226, and √w|y| at most 3.2e104.
const (
	maxSum    = 1e240
	maxBound  = 1e105
	maxRounds = 1 << 62
)

// readAccounts reads the accounts of k label columns. It fails unless all have
// the same rounds and their numbers are within bounds.
func readAccounts(r *codec.Reader, k int) ([]account, error) {
	columns := make([]account, k)
	for j := range columns {
		a := &columns[j]
		a.n = r.Uint64()
		for _, s := range a.sums() {
			r.Within(maxSum, &s.High, &s.Low)
		}
		r.Within(maxBound, &a.bound)
		if err := r.Err(); err != nil {
			return nil, fmt.Errorf("account %d: %w", j, err)
		}
		if a.n != columns[0].n || a.n >= maxRounds || a.bound < 0 {
			return nil, fmt.Errorf("account %d has %d rounds, the first %d, label bound %g: %w",
				j, a.n, columns[0].n, a.bound, model.ErrCorruptState)
		}
	}
	return columns, nil
}

// reportOf is the part of a report that Stats knows, with the regret against
// the best function without its penalty.
func reportOf(s model.Stats, unpenalized float64) model.Report {
	return model.Report{
		HindsightLoss: s.HindsightLoss, Regret: s.Regret, CertificateOK: s.CertificateOK,
		RegretUnpenalized: unpenalized, EffectiveDimension: math.NaN(),
	}
}
