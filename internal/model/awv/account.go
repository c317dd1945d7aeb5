package awv

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// account is the loss account of one label column. With a forgetting factor f < 1 every sum
// discounts the round s at round t by f^(t−s). Certificate is C = Σ y² h, h = q/(1+q);
// addWeighted has the term of a weight ω ≠ 1. Bound is B = max |y| Beta(ω).
type account struct {
	ledger.Account
	// incurred is the part of C that no bound has beforehand: Σu² of new features, see
	// Forecaster.grow, and what rounds of weights without a Beta added to the regret.
	incurred compensated.Sum
}

// Beta is the factor 1/√(2−ω) of a label in B, for its weight ω. It is 0 for a weight above
// 2 − 1e-9: no label bounds the round.
func Beta(weight float64) float64 {
	left := 2 - weight
	if left < 1/model.MaxWeight {
		return 0
	}
	return 1 / math.Sqrt(left)
}

// add accounts for one observation: its label y and weight ω, the previous ridge prediction p
// of the row and its residual ε, both times √ω, and the rotation by √ω(z, y). It returns
// Predict's prediction, made without the weight, and its loss.
//
// Each term h (y² − γ²p²) of the regret equals (y−ŷ)² − ε² exactly.
func (a *account) add(y, p, residual, weight float64, rotation qr.Rotation) (prediction, loss float64) {
	if weight != 1 {
		return a.addWeighted(y, p, residual, weight, rotation)
	}
	prior := float64(rotation.Gamma * p)
	prediction = float64(rotation.Gamma * prior)
	miss := y - prediction
	loss = float64(miss * miss)
	squared := float64(y * y)
	a.Add(loss, squared, math.Abs(y))
	a.Hindsight.Add(float64(residual * residual))
	a.Certificate.Add(float64(squared * rotation.Leverage))
	a.Regret.Add(float64(rotation.Leverage * (squared - float64(prior*prior))))
	return prediction, loss
}

// addWeighted is add for a weight ω ≠ 1. With q = zᵀA⁻¹z of the features without their weight,
// ŷ = p/(1+q) and the leverage h = ωq/(1+ωq) of the row, the round adds to the regret
//
//	ω(y−ŷ)² − ω(y−p)²/(1+ωq) = h (ω(y−ŷ)² + 2ŷ(y−ŷ) − qŷ²)
//
// which is concave in ŷ while ω < 2+q, and then at most ω y² q/(2+q−ω), its largest value.
// While ω < 2 this is at most y² h/(2−ω), and Σh ≤ log det(A/λ). A round without a Beta enters
// C with its own regret, if positive.
func (a *account) addWeighted(y, p, residual, weight float64, rotation qr.Rotation) (prediction, loss float64) {
	root := math.Sqrt(weight)
	q := rotation.Leverage / (float64(rotation.Gamma*rotation.Gamma) * weight)
	prediction = p / root / (1 + q)
	miss := y - prediction
	loss = float64(weight * float64(miss*miss))
	beta, label := Beta(weight), float64(root*y)
	a.Add(loss, float64(label*label), float64(math.Abs(y)*beta))
	a.Hindsight.Add(float64(residual * residual))
	excess := float64(rotation.Leverage * (loss + float64(prediction*(float64(2*miss)-float64(q*prediction)))))
	a.Regret.Add(excess)
	if beta > 0 {
		a.Certificate.Add(float64(float64(weight*float64(y*y)) * (q / (2 - weight + q))))
	} else {
		a.incur(math.Max(0, excess))
	}
	return prediction, loss
}

// grow accounts for the entry u of a new feature: L* falls by u².
func (a *account) grow(u float64) {
	square := float64(u * u)
	a.Raise(-square)
	a.incur(square)
}

func (a *account) incur(regret float64) {
	a.Certificate.Add(regret)
	a.incurred.Add(regret)
}

// deviation is σ̂ = sqrt(L*/n), 0 before the first observation.
func (a *account) deviation(forgetting float64) float64 {
	if a.Rounds == 0 {
		return 0
	}
	return math.Sqrt(math.Max(a.Hindsight.Value(), 0) / a.rounds(forgetting))
}

// rounds is Σ f^(t−s), which is t when nothing is forgotten.
func (a *account) rounds(forgetting float64) float64 {
	n := float64(a.Rounds)
	if forgetting < 1 {
		return -math.Expm1(n*math.Log(forgetting)) / (1 - forgetting)
	}
	return n
}

func (a *account) tolerance(forgetting float64) float64 {
	return ledger.Tolerance(a.rounds(forgetting))
}

// summarize adds up the figures of every label column, given log det(A/λ) and each column's
// ‖u‖². Unless certified the sum has no bound, and CertificateOK covers the identities alone.
func summarize(columns []account, logDet float64, explained func(column int) float64, certified bool, forgetting float64) model.Stats {
	tolerance := columns[0].tolerance(forgetting)
	total := model.Stats{Certified: true, CertificateOK: true, LogDeterminant: logDet}
	for j := range columns {
		a := &columns[j]
		s := a.Stats()
		if s.Certified = certified; certified {
			s.Certificate = a.Certificate.Value()
			s.RegretBound = float64(a.Bound*a.Bound*logDet) + a.incurred.Value()
		}
		ledger.Sum(&total, s)
		total.CertificateOK = total.CertificateOK && a.holds(s, explained(j), tolerance)
	}
	return total
}

// boundIndicators bounds the regret of all outputs together, of whose labels one is 1 in each round:
//
//	Σ_j C_j = Σ_t ω h_t Σ_j y_tj² = Σ_t ω h_t
func (f *Forecaster) boundIndicators(s *model.Stats) {
	s.LabelBound = 0
	bound := 0.0
	for j := range f.columns {
		s.LabelBound = math.Max(s.LabelBound, f.columns[j].Bound)
		bound += f.columns[j].incurred.Value()
	}
	if !s.Certified {
		return
	}
	bound += float64(s.LabelBound * s.LabelBound * s.LogDeterminant)
	tolerance := f.columns[0].tolerance(f.o.Forgetting)
	s.CertificateOK = s.CertificateOK && s.Certificate <= bound*(1+tolerance)+float64(tolerance*(s.Loss+s.HindsightLoss))
	// A determinant within rounding of 1 has fewer digits than the certificate.
	s.RegretBound = math.Max(bound, s.Certificate)
}

// holds checks the theorem Regret ≤ C ≤ B² log det(A/λ) + incurred and the account's identities.
//
// Source: PKAWV, HAL 2019, Proposition 2.1; Cesa-Bianchi and Lugosi, Theorem 11.8.
func (a *account) holds(s model.Stats, explained, tolerance float64) bool {
	slack := tolerance * (s.Loss + a.Energy.Value())
	theorem := s.Regret <= s.Certificate+slack && s.Certificate <= s.RegretBound*(1+tolerance)+slack
	return (theorem || !s.Certified) && a.Reconciles(explained, tolerance)
}

func (a *account) visit(v *codec.Visitor, first *account) {
	v.Uint64(&a.Rounds)
	for _, s := range [...]*compensated.Sum{&a.Loss, &a.Hindsight, &a.Energy, &a.Certificate, &a.Regret, &a.incurred} {
		v.Within(ledger.MaxSum, &s.High, &s.Low)
	}
	v.Within(ledger.MaxBound, &a.Bound)
	if incurred := a.incurred.Value(); v.Reading() &&
		(a.Rounds != first.Rounds || a.Rounds >= ledger.MaxRounds || a.Bound < 0 || !(incurred >= 0)) {
		v.Corrupt("an account of %d rounds, the first of %d, label bound %g, incurred regret %g", a.Rounds, first.Rounds, a.Bound, incurred)
	}
}
