package scaling

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

// row is an observation of the warm-up.
type row struct {
	x, y   []float64
	weight float64
}

// warmup is what there is before there is a scaling.
type warmup struct {
	o    Options
	rows []row
	// sums are Σy of each output, loss is what their means lost.
	sums []compensated.Sum
	loss compensated.Sum
}

func newWarmup(o Options) *warmup { return &warmup{o: o, sums: make([]compensated.Sum, o.Outputs)} }

// mean is the mean label of an output so far, 0 of nothing.
func (w *warmup) mean(output int) float64 {
	return w.sums[output].Value() / math.Max(float64(len(w.rows)), 1)
}

// predict answers the means, with the standard error and the leverage of a
// constant feature under a ridge of 1.
func (w *warmup) predict(p *model.Prediction) {
	p.Resize(w.o.Outputs)
	n := float64(len(w.rows))
	p.Leverage = 1 / (n + 2)
	for j := range p.Values {
		p.Values[j] = w.mean(j)
		p.StandardErrors[j] = 0
		if n > 0 {
			p.StandardErrors[j] = w.deviation(j) / math.Sqrt(n)
		}
	}
}

// deviation is the root of the mean square of an output about its mean.
func (w *warmup) deviation(output int) float64 {
	mean, sum := w.mean(output), 0.0
	for _, r := range w.rows {
		d := r.y[output] - mean
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(len(w.rows)))
}

// observe keeps a copy of an observation.
func (w *warmup) observe(o *model.Outcome, r row, lossOf func(prediction, label float64) float64) {
	o.Resize(w.o.Outputs)
	o.Loss, o.Regret = 0, math.NaN()
	for j, y := range r.y {
		o.Predictions[j] = w.mean(j)
		o.Loss += float64(r.weight * lossOf(o.Predictions[j], y))
	}
	for j, y := range r.y {
		w.sums[j].Add(y)
	}
	w.loss.Add(o.Loss)
	w.rows = append(w.rows, row{
		x: append([]float64(nil), r.x...), y: append([]float64(nil), r.y...), weight: r.weight,
	})
}

// affine is the scaling that the observations determine: mean 0 and mean
// square 1/4d of every input, so that two inputs are about 0.7 apart in any
// dimension, of which a kernel with σ = 1 makes good use also when the stream
// then drifts beyond what the warm-up saw; and if labels are scaled, mean 0 of
// each and mean square 1 of all.
//
// An input that never changed is measured by its own size, or as it is when
// that is below 1.
func (w *warmup) affine() Affine {
	d, k, n := w.o.Dimension, w.o.Outputs, float64(len(w.rows))
	a := Affine{
		Offset: make([]float64, d), Scale: make([]float64, d),
		LabelOffset: make([]float64, k), LabelScale: 1,
	}
	for i := range d {
		var sum compensated.Sum
		for _, r := range w.rows {
			sum.Add(r.x[i])
		}
		mean := sum.Value() / n
		square := 0.0
		for _, r := range w.rows {
			off := r.x[i] - mean
			square += float64(off * off)
		}
		deviation := math.Sqrt(square / n)
		if deviation <= constant*math.Abs(mean) || deviation == 0 {
			deviation = math.Max(math.Abs(mean), 1)
		}
		a.Offset[i], a.Scale[i] = mean, 1/(2*deviation*math.Sqrt(float64(d)))
	}
	if !w.o.Labels {
		return a
	}
	square, largest := 0.0, 0.0
	for j := range k {
		a.LabelOffset[j] = w.mean(j)
		deviation := w.deviation(j)
		square += float64(deviation * deviation)
		largest = math.Max(largest, math.Abs(a.LabelOffset[j]))
	}
	if deviation := math.Sqrt(square / float64(k)); deviation > constant*largest {
		a.LabelScale = 1 / deviation
	}
	return a
}

// constant is the relative deviation below which a column did not change but
// by rounding.
const constant = 1e-14
