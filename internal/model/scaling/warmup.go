package scaling

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/moments"
)

// CatchUp is how many kept observations one Observe learns after the warm-up. CatchUp bounds
// the time of an Observe.
const CatchUp = 32

type row struct {
	x, y   []float64
	weight float64
}

func newRow(o Options) row {
	both := make([]float64, o.Dimension+o.Outputs)
	return row{x: both[:o.Dimension:o.Dimension], y: both[o.Dimension:]}
}

// warmup predicts the mean of the labels until the learner has learned every observation.
// Until the scaling is frozen, rows are all observations; from then on rows are the backlog.
type warmup struct {
	o      Options
	frozen bool
	rows   []row
	n      uint64
	// loss is the loss of the means, own the learner's loss of the rows that it has learned.
	loss compensated.Sum
	own  float64
	// best are the constants of the least loss: the means.
	best    constants
	learned model.Outcome
}

// constants are, for each output, the constant c with the least Σω(y−c)², and this loss.
type constants struct {
	weight float64
	// outputs have c as their means and the losses as their squares.
	outputs []moments.Running
}

func (c *constants) add(y []float64, weight float64) {
	for j, label := range y {
		c.outputs[j].AddWeighted(label, weight, c.weight)
	}
	c.weight += weight
}

func (w *warmup) hindsight() (total float64) {
	for _, c := range w.best.outputs {
		total += c.Squares
	}
	return total
}

// addOutput adds an output whose labels were 0. Its mean is 0.
func (w *warmup) addOutput() {
	w.o.Outputs++
	for i := range w.rows {
		w.rows[i].y = append(w.rows[i].y, 0)
	}
	w.best.outputs = append(w.best.outputs, moments.Running{})
}

// mean is the mean label of an output by weight, Start before the first observation.
func (w *warmup) mean(output int) float64 {
	if w.n == 0 {
		return w.o.Start
	}
	return w.best.outputs[output].Mean
}

// predict answers the means, with the figures of a constant feature under a ridge of 1.
func (w *warmup) predict(p *model.Prediction) {
	p.Resize(w.o.Outputs)
	n := float64(w.n)
	p.Leverage = 1 / (n + 2)
	for j := range p.Values {
		p.Values[j] = w.mean(j)
		p.StandardErrors[j] = math.Sqrt(w.best.outputs[j].Squares / w.best.weight / n)
	}
	if w.n == 0 {
		p.StandardErrors = p.StandardErrors[:0]
	}
}

func (w *warmup) observe(o *model.Outcome, r row, l model.Learner) {
	o.Resize(w.o.Outputs)
	o.Loss = 0
	for j, y := range r.y {
		o.Predictions[j] = w.mean(j)
		o.Loss += float64(r.weight * model.LossOf(l, o.Predictions[j], y))
	}
	w.n++
	w.loss.Add(o.Loss)
	w.best.add(r.y, r.weight)
	kept := newRow(w.o)
	copy(kept.x, r.x)
	copy(kept.y, r.y)
	kept.weight = r.weight
	w.rows = append(w.rows, kept)
}

func (w *warmup) drop() {
	w.rows[0] = row{} // Frees its memory.
	w.rows = w.rows[1:]
}

// affine is the scaling that the observations determine. Every input gets mean 0 and mean
// square 1/4d. Two inputs are then about 0.7 apart in any dimension: this distance suits a
// kernel with σ = 1, also when the stream leaves the range of the warm-up. Scaled labels
// get mean 0 each, and mean square 1 together. A constant input has its magnitude, at least 1, as unit.
func (w *warmup) affine() Affine {
	d, k := w.o.Dimension, w.o.Outputs
	a := Affine{LabelOffset: make([]float64, k), LabelScale: 1}
	a.Offset, a.Scale = columns(w.rows, d, func(r row) []float64 { return r.x })
	a.deviate(w.o.Lists)
	if !w.o.Labels {
		return a
	}
	var deviations []float64
	a.LabelOffset, deviations = columns(w.rows, k, func(r row) []float64 { return r.y })
	square, largest := 0.0, 0.0
	for j, deviation := range deviations {
		square += float64(deviation * deviation)
		largest = math.Max(largest, math.Abs(a.LabelOffset[j]))
	}
	switch deviation := math.Sqrt(square / float64(k)); {
	case deviation > moments.Rounding*largest:
		a.LabelScale = 1 / deviation
	case w.o.Running:
		a.LabelScale = 1 / math.Max(largest, 1)
	}
	return a
}

func (a *Affine) deviate(lists []List) {
	inputs := len(a.Scale)
	for _, l := range lists {
		square := 0.0
		for _, deviation := range a.Scale[l.From:l.To] {
			square += float64(deviation * deviation)
		}
		count := l.To - l.From
		if l.Joint {
			inputs -= count - 1
			count = 1
		}
		common := math.Sqrt(square / float64(count))
		for i := l.From; i < l.To; i++ {
			a.Scale[i] = common
		}
	}
	root := math.Sqrt(float64(inputs))
	for i, deviation := range a.Scale {
		a.Scale[i] = scaleOf(a.Offset[i], deviation, root)
	}
}

// scaleOf is the scale of an input in root² dimensions.
func scaleOf(mean, deviation, root float64) float64 {
	if size := math.Abs(mean); deviation <= moments.Rounding*size || deviation == 0 {
		deviation = math.Max(size, 1)
	}
	return 1 / (2 * deviation * root)
}

// columns are the mean and the deviation of each column. A row counts ω, see model.Weights.
func columns(rows []row, width int, of func(row) []float64) (means, deviations []float64) {
	var weights model.Weights
	for _, r := range rows {
		weights.Add(r.weight)
	}
	sums, total := make([]compensated.Sum, width), 0.0
	for _, r := range rows {
		counts := weights.Of(r.weight)
		total += counts
		for i, v := range of(r) {
			sums[i].Add(float64(counts * v))
		}
	}
	means, deviations = make([]float64, width), make([]float64, width)
	for i := range sums {
		means[i] = sums[i].Value() / total
	}
	for _, r := range rows {
		counts := weights.Of(r.weight)
		for i, v := range of(r) {
			off := v - means[i]
			deviations[i] += float64(counts * float64(off*off))
		}
	}
	for i, square := range deviations {
		deviations[i] = math.Sqrt(square / total)
	}
	return means, deviations
}

// inputMoments are the moments of the inputs, see moments.Table, and the weights of the rows.
type inputMoments struct {
	weights model.Weights
	moments.Table
}

// add takes more observations, in O(d) each. Each counts by the weights of all of them.
func (m *inputMoments) add(rows []row) {
	for _, r := range rows {
		m.weights.Add(r.weight)
	}
	for _, r := range rows {
		m.Add(r.x, m.weights.Of(r.weight))
	}
}

func (m *inputMoments) scale(a *Affine, lists []List) {
	for i := range a.Scale {
		a.Offset[i], a.Scale[i] = m.Mean(i), m.Deviation(i)
	}
	a.deviate(lists)
}

// maxWeights bounds Σw: model.MaxWeight each, and 2⁶⁴ of them.
const maxWeights = 1e29

// visit visits Σw and the moments. The number of observations is the learner's.
func (m *inputMoments) visit(v *codec.Visitor) {
	if v.Within(maxWeights, &m.weights.Sum); v.Reading() && !(m.weights.Sum > 0) {
		v.Corrupt("weights of %g together", m.weights.Sum)
	}
	m.Visit(v)
}
