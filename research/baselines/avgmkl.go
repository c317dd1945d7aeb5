package baselines

// AvgMKL is OGD with the average of the kernels of the dictionary: AdaRaker paper,
// section 5, "the average of candidate kernels without updating the weights".
type AvgMKL struct{ descent *OGD }

// NewAvgMKL returns f = 0 for a stream of so many rounds.
func NewAvgMKL(loss Loss, ridge float64, rounds int) *AvgMKL {
	return &AvgMKL{descent: NewOGD(loss, ridge, rounds)}
}

// Predict returns f(x) of the last input.
func (a *AvgMKL) Predict(p *Past) Values { return a.descent.Predict(p.Mean()) }

// Learn makes the step for the label of the last input.
func (a *AvgMKL) Learn(p *Past, y float64) { a.descent.Learn(y, p.average()) }
