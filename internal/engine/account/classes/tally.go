package classes

import (
	"math"

	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model/codec"
)

// Figures are sums over the predictions of some observations and, over the same
// observations, of two predictors that ignore the inputs.
type Figures struct {
	// Errors counts the predictions of another class than was observed.
	Errors float64
	// LogLoss is Σ −log P, P being the probability of the class that was observed, or
	// 10⁻⁹ if that is larger.
	LogLoss float64
	// Brier is Σ Σ_k (P_k − e_k)², e being the indicator of the class that was
	// observed: from 0 to 2 an observation.
	//
	// Source: Brier, Monthly Weather Review 78 (1950).
	Brier float64
	// Majority counts the errors of the class that was observed most before, Last
	// those of the class of the observation before.
	Majority, Last float64
}

// Skill is 1 − Errors / the fewer errors of the baselines: 1 is perfect, 0 is as good
// as the better baseline, below 0 is worse. It is NaN when a baseline has no errors.
func (f *Figures) Skill() float64 {
	best := math.Min(f.Majority, f.Last)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Errors/best
}

func (f *Figures) add(by Figures) {
	f.Errors += by.Errors
	f.LogLoss += by.LogLoss
	f.Brier += by.Brier
	f.Majority += by.Majority
	f.Last += by.Last
}

func (f *Figures) sub(by Figures) {
	f.Errors -= by.Errors
	f.LogLoss -= by.LogLoss
	f.Brier -= by.Brier
	f.Majority -= by.Majority
	f.Last -= by.Last
}

func (f *Figures) appendBinary(dst []byte) []byte {
	return codec.AppendFloats(dst, f.Errors, f.LogLoss, f.Brier, f.Majority, f.Last)
}

func (f *Figures) read(r *codec.Reader, most float64) {
	r.Within(most, &f.Errors, &f.LogLoss, &f.Brier, &f.Majority, &f.Last)
}

// Performance is how a classifier did over some observations.
type Performance struct {
	// Observations is their number.
	Observations float64
	// Prequential are of the predictions made just before each observation was
	// learned.
	Prequential Figures
	// Served are of what the client was told, beside the baselines of that moment.
	// Where it was told nothing, they are the prequential ones.
	Served Figures
}

// Add adds the sums of other observations.
func (p *Performance) Add(by Performance) {
	p.Observations += by.Observations
	p.Prequential.add(by.Prequential)
	p.Served.add(by.Served)
}

// Sub takes away the sums of the first observations, so that those of the others stay.
func (p *Performance) Sub(by Performance) {
	p.Observations -= by.Observations
	p.Prequential.sub(by.Prequential)
	p.Served.sub(by.Served)
}

// Count is the number of observations.
func (p *Performance) Count() float64 { return p.Observations }

// AppendBinary appends all sums.
func (p *Performance) AppendBinary(dst []byte) []byte {
	return p.Served.appendBinary(p.Prequential.appendBinary(codec.AppendFloats(dst, p.Observations)))
}

// Read reads what AppendBinary appends, numbers of at most most.
func (p *Performance) Read(r *codec.Reader, most float64) {
	r.Within(most, &p.Observations)
	p.Prequential.read(r, most)
	p.Served.read(r, most)
}

// window has the performance over the last observations.
type window = recent.Window[Performance, *Performance]
