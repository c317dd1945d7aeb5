package classes

import (
	"math"

	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model/codec"
)

// Figures are sums over predictions and, over the same observations, of two baselines
// that ignore the inputs.
type Figures struct {
	// Errors counts the predictions of a class other than the observed one.
	Errors float64
	// LogLoss is Σ −log max(P, 10⁻⁹), where P is the probability of the observed class: of a known
	// class, the prediction's probability times the probability of no new class; of a new class, the probability of a new class.
	LogLoss float64
	// Brier is Σ Σ_k (P_k − e_k)², where e is the indicator of the observed class: from 0
	// to 2 an observation.
	//
	// Source: Brier, Monthly Weather Review 78 (1950).
	Brier float64
	// Majority counts the errors of predicting the most frequent earlier class, Last
	// the errors of predicting the previous class.
	Majority, Last float64
}

// Skill returns 1 − Errors / the fewer errors of the baselines: 1 is perfect, 0 equals the
// better baseline, below 0 is worse. It is NaN when a baseline has no errors.
func (f *Figures) Skill() float64 {
	best := math.Min(f.Majority, f.Last)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Errors/best
}

func (f *Figures) add(by *Figures, times float64) {
	f.Errors += float64(times * by.Errors)
	f.LogLoss += float64(times * by.LogLoss)
	f.Brier += float64(times * by.Brier)
	f.Majority += float64(times * by.Majority)
	f.Last += float64(times * by.Last)
}

func (f *Figures) visit(v *codec.Visitor, limit float64) {
	v.Within(limit, &f.Errors, &f.LogLoss, &f.Brier, &f.Majority, &f.Last)
}

// Performance is how a classifier did over some observations.
type Performance struct {
	Observations float64
	// Prequential are the figures of the predictions made just before each observation
	// was learned.
	Prequential Figures
	// Served are the figures of the predictions that the client received, beside the
	// baselines at the time of the prediction. An observation without a served prediction
	// counts its prequential prediction.
	Served Figures
}

// Add adds the sums of other observations.
func (p *Performance) Add(by Performance) { p.add(&by, 1) }

// Sub subtracts the sums of the first observations; the sums of the others remain.
func (p *Performance) Sub(by Performance) { p.add(&by, -1) }

func (p *Performance) add(by *Performance, times float64) {
	p.Observations += float64(times * by.Observations)
	p.Prequential.add(&by.Prequential, times)
	p.Served.add(&by.Served, times)
}

// Count returns the number of observations.
func (p *Performance) Count() float64 { return p.Observations }

// Visit visits all sums. Reading accepts magnitudes of at most limit.
func (p *Performance) Visit(v *codec.Visitor, limit float64) {
	v.Within(limit, &p.Observations)
	p.Prequential.visit(v, limit)
	p.Served.visit(v, limit)
}

type window = recent.Window[Performance, *Performance]
