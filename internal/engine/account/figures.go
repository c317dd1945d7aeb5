package account

import (
	"math"

	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model/codec"
)

// Figures are the losses of predictions and, over the same observations, of two
// baselines that ignore the inputs.
type Figures struct {
	// Loss is the loss of the predictions, RunningMean the loss of the mean of the earlier
	// labels, LastLabel the loss of the previous label.
	Loss, RunningMean, LastLabel float64
	// Squared and Absolute are Σ ω (y − ŷ)² and Σ ω |y − ŷ| over the rounds of
	// Performance.Weight.
	Squared, Absolute float64
}

// Skill returns 1 − Loss / the smaller loss of the baselines: 1 is perfect, 0 equals the
// better baseline, below 0 is worse. It is NaN when a baseline has no loss.
func (f *Figures) Skill() float64 {
	best := math.Min(f.RunningMean, f.LastLabel)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Loss/best
}

func (f *Figures) add(by *Figures, times float64) {
	f.Loss += float64(times * by.Loss)
	f.RunningMean += float64(times * by.RunningMean)
	f.LastLabel += float64(times * by.LastLabel)
	f.Squared += float64(times * by.Squared)
	f.Absolute += float64(times * by.Absolute)
}

func (f *Figures) visit(v *codec.Visitor, limit float64) {
	v.Within(limit, &f.Loss, &f.RunningMean, &f.LastLabel)
}

func (f *Figures) visitErrors(v *codec.Visitor) {
	v.Within(maxNumber, &f.Squared, &f.Absolute)
	if v.Reading() && (f.Squared < 0 || f.Absolute < 0) {
		v.Corrupt("errors of %g and %g", f.Squared, f.Absolute)
	}
}

// Performance is how a model did over some observations. Losses are sums.
type Performance struct {
	// Observations is the number of observations.
	Observations float64
	// Weight is Σ ω k, k the number of outputs, over the rounds with the squared loss.
	Weight float64
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
	p.Weight += float64(times * by.Weight)
	p.Prequential.add(&by.Prequential, times)
	p.Served.add(&by.Served, times)
}

// MeanLoss returns Loss / Observations of figures of p. It is NaN without observations.
func (p *Performance) MeanLoss(f *Figures) float64 {
	if p.Observations == 0 { // The bits of 0/0 depend on the processor.
		return math.NaN()
	}
	return f.Loss / p.Observations
}

// RMSE returns sqrt(Σ ω (y − ŷ)² / Weight) of figures of p, in the unit of the label, and MAE
// Σ ω |y − ŷ| / Weight. Both are NaN while Weight is 0.
func (p *Performance) RMSE(f *Figures) float64 { return math.Sqrt(f.Squared / p.Weight) }

// MAE returns the mean absolute error: see RMSE.
func (p *Performance) MAE(f *Figures) float64 { return f.Absolute / p.Weight }

// Count returns the number of observations.
func (p *Performance) Count() float64 { return p.Observations }

// Visit visits all sums. Reading accepts sums of losses of magnitudes of at most limit.
func (p *Performance) Visit(v *codec.Visitor, limit float64) {
	v.Within(limit, &p.Observations)
	p.Prequential.visit(v, limit)
	p.Served.visit(v, limit)
	v.Within(maxNumber, &p.Weight)
	if v.Reading() && p.Weight < 0 {
		v.Corrupt("a sum of weights of %g", p.Weight)
	}
	p.Prequential.visitErrors(v)
	p.Served.visitErrors(v)
}

type window = recent.Window[Performance, *Performance]
