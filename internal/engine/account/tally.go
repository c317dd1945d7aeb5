package account

import (
	"math"

	"hindsight/internal/engine/account/recent"
	"hindsight/internal/model/codec"
)

// Figures are the losses of some predictions and, over the same observations,
// of two predictors that ignore the inputs.
type Figures struct {
	// Loss is the loss of the predictions, RunningMean of the mean of the labels
	// before, LastLabel of the label before.
	Loss, RunningMean, LastLabel float64
}

// Skill is 1 − Loss / the smaller loss of the baselines: 1 is perfect, 0 is as
// good as the better baseline, below 0 is worse. It is NaN when a baseline has
// no loss.
func (f *Figures) Skill() float64 {
	best := math.Min(f.RunningMean, f.LastLabel)
	if !(best > 0) {
		return math.NaN()
	}
	return 1 - f.Loss/best
}

func (f *Figures) add(by Figures) {
	f.Loss += by.Loss
	f.RunningMean += by.RunningMean
	f.LastLabel += by.LastLabel
}

func (f *Figures) sub(by Figures) {
	f.Loss -= by.Loss
	f.RunningMean -= by.RunningMean
	f.LastLabel -= by.LastLabel
}

func (f *Figures) appendBinary(dst []byte) []byte {
	return codec.AppendFloats(dst, f.Loss, f.RunningMean, f.LastLabel)
}

func (f *Figures) read(r *codec.Reader, most float64) {
	r.Within(most, &f.Loss, &f.RunningMean, &f.LastLabel)
}

func (f *Figures) scale(by float64) {
	f.Loss *= by
	f.RunningMean *= by
	f.LastLabel *= by
}

// Performance is how a model did over some observations. Losses are sums.
type Performance struct {
	// Observations is their number; of discounted ones, the sum of what they
	// count.
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

func (p *Performance) scale(by float64) {
	p.Observations *= by
	p.Prequential.scale(by)
	p.Served.scale(by)
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

// A round leaves so much of what the discounted performance was before.
const discount = 0.999

// window has the performance over the last observations.
type window = recent.Window[Performance, *Performance]
