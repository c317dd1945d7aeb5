// Package ledger holds the loss accounts of learners.
package ledger

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

// Account is the loss account of one output of a learner. All losses are prequential: of
// the prediction that was made before the label came, times the weight of the round.
type Account struct {
	Comparison

	// Rounds is n, the number of observations.
	Rounds uint64
	// Loss is the learner's, Energy Σωy², Certificate C with Regret <= C.
	Loss, Energy, Certificate compensated.Sum
	// Bound is B, the largest magnitude of a label under its weight.
	Bound float64
}

// Comparison compares the learner with one competitor, such as an expert.
type Comparison struct {
	// Hindsight is L*, the loss of the competitor. Regret is the loss of the learner less L*,
	// added up round by round, so that Regret keeps its digits beside two large losses.
	Hindsight, Regret compensated.Sum
}

// Bounds of the numbers in a stored account. A round of labels within model.MaxMagnitude
// and a weight within model.MaxWeight adds at most 1e211 to a sum of squares and, after 2^53
// rounds of gradient descent, 1e270 to a loss. A Bound is at most 3.2e104.
const (
	MaxSum    = 1e280
	MaxBound  = 1e105
	MaxRounds = 1 << 62
)

// Tolerance is the relative rounding that the identities of an account of n rounds may
// have: 1e-8 + n ε. Each of the n rotations of a factor rounds its entries by a few ε at
// most, and these errors add up.
//
// Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), Theorem 19.10.
func Tolerance(rounds float64) float64 {
	const least, epsilon = 1e-8, 0x1p-52
	return least + epsilon*rounds
}

// Add accounts for a round of the learner, given its loss, ωy² and the label's B.
func (a *Account) Add(loss, energy, bound float64) {
	a.Rounds++
	a.Loss.Add(loss)
	a.Energy.Add(energy)
	a.Bound = math.Max(a.Bound, bound)
}

// Raise adds to L* what a further penalty adds to the loss of the competitor.
func (c *Comparison) Raise(by float64) {
	c.Hindsight.Add(by)
	c.Regret.Add(-by)
}

// Discount multiplies every sum by f.
func (a *Account) Discount(f float64) {
	for _, s := range [...]*compensated.Sum{&a.Loss, &a.Hindsight, &a.Energy, &a.Certificate, &a.Regret} {
		s.Scale(f)
	}
}

// Reconciles reports whether
//
//	Regret = loss − L*  and  L* = Σωy² − explained
//
// to the tolerance, relative to the loss and Σωy². The factor that explains the labels and
// the sums are built separately, so that corruption of either shows.
func (a *Account) Reconciles(explained, tolerance float64) bool {
	loss, hindsight, energy := a.Loss.Value(), a.Hindsight.Value(), a.Energy.Value()
	slack := tolerance * (loss + energy)
	return math.Abs(loss-hindsight-a.Regret.Value()) <= slack && math.Abs(energy-explained-hindsight) <= slack
}

// Plausible reports whether the loss and Σωy² can be sums of losses and squares.
func (a *Account) Plausible() bool {
	loss, energy := a.Loss.Value(), a.Energy.Value()
	return loss >= 0 && energy >= 0 && !math.IsInf(loss+energy, 1)
}

// Stats are the figures of the account without its certificate.
func (a *Account) Stats() model.Stats {
	return model.Stats{
		Observations: a.Rounds, Loss: a.Loss.Value(), HindsightLoss: a.Hindsight.Value(), Regret: a.Regret.Value(),
		LabelBound: a.Bound,
	}
}

// Report is the part of a report that Stats knows.
func Report(s model.Stats) model.Report {
	return model.Report{
		HindsightLoss: s.HindsightLoss, Regret: s.Regret, CertificateOK: s.CertificateOK,
		RegretUnpenalized: math.NaN(), RegretRKHS: math.NaN(), Certificate: math.NaN(), EffectiveDimension: math.NaN(),
	}
}

// Sum adds the figures of one output to the figures of the outputs before. The sum is certified
// while all outputs are: begin with Certified: true.
func Sum(total *model.Stats, s model.Stats) {
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
