package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// ridgeFit is a ridge regression on the kept rows, whose λ has the least leave-one-out loss.
// Its features are a constant, the inputs and then the lags, scaled as of the last refit. With
// the weights w_i over their mean,
//
//	A = λI + Σ w z zᵀ,  q_i = z_iᵀA⁻¹z_i,  y_i − ŷ₋ᵢ(z_i) = (y_i − z_iᵀA⁻¹b) / (1 − w_i q_i)
//
// where ŷ₋ᵢ is the ridge regression on the other rows. One factor has two regressions: all
// features, and the leading ones, without lags. Between refits each row is rotated into the
// factor.
//
// Source: Allen, The relationship between variable selection and data augmentation
// (Technometrics 16, 1974); Hastie, Tibshirani and Friedman, The Elements of Statistical
// Learning, §7.10.
type ridgeFit struct {
	// lambda is the place of λ in lambdas.
	lambda int
	// offsets and scales are the offsets and scales of the inputs, then of the labels.
	offsets, scales []float64
	factor          *qr.Factor
}

const (
	// The feature that is the same in every row. Its square makes the penalty on
	// the level of the labels next to nothing.
	constant = 100
	// The number of rows of the first fit.
	firstFit = 4
	// The largest number of features of a fit.
	mostOrder = 200
	// The least 1 − w q: below it, a row alone decides its prediction.
	leastLeft = 1e-9
	// The least number of λ that a refit with a choice compares, and the
	// least number of rows that it leaves out if it does not leave out all in turn.
	leastTried, leastChecked = 3, 64
)

const lambdaCount = 9

func lambdas() [lambdaCount]float64 { return [...]float64{0.1, 1, 3, 10, 30, 100, 300, 1000, 10000} }

const firstLambda = 3 // λ = 10.

// ridgeOrder is the number of features, and leading the number of features without lags.
func (o Options) ridgeOrder() int { return 1 + o.columns() }
func (o Options) leading() int    { return 1 + o.Dimension }

// refitDue reports whether λ is chosen anew after n rows: 4, 5, 6, 7, 8, 12, 16, 24, 32 and so on.
func refitDue(n uint64) bool {
	powerOfTwo := func(v uint64) bool { return v&(v-1) == 0 }
	return n >= firstFit && (n <= 8 || powerOfTwo(n) || n%3 == 0 && powerOfTwo(n/3))
}

// refitPlan is what a refit compares: λ from first to last, with the newest checked rows left
// out in turn. There is no refit if checked is 0.
type refitPlan struct{ first, last, checked int }

// planRefit plans a refit on n rows within twice the nominal time of an Observe.
func (o Options) planRefit(n, lambda int) refitPlan { return o.planFit(o.ridgeOrder(), n, lambda) }

func (o Options) planFit(order, n, lambda int) refitPlan {
	r, k := uint64(order), uint64(o.Outputs)
	factor, row := r*r*r/6+k*r*r, r*r/2+r*k
	budget, gram := uint64(2*flopsPerMicrosecond*o.Microseconds), uint64(n)*(r*r/2+r*k)
	all := lambdaCount
	if gram+factor > budget {
		return refitPlan{}
	}
	left := budget - gram
	tried, checked := min(all, int(left/(factor+uint64(n)*row))), n
	if tried < leastTried { // Fewer rows are left out.
		tried = leastTried
		if left < uint64(tried)*(factor+leastChecked*row) {
			return refitPlan{first: lambda, last: lambda, checked: 1}
		}
		checked = min(n, int((left/uint64(tried)-factor)/row))
	}
	first := max(0, min(lambda-tried/2, all-tried))
	return refitPlan{first: first, last: first + tried - 1, checked: checked}
}

func (o Options) newRidgeFit() *ridgeFit {
	f := &ridgeFit{
		lambda: firstLambda, offsets: make([]float64, o.Dimension+o.Outputs), scales: make([]float64, o.Dimension+o.Outputs),
	}
	f.factor = qr.New(o.ridgeOrder(), o.Outputs, lambdas()[firstLambda])
	return f
}

// ridgeBytes is the memory of a fit with its scratch.
func (o Options) ridgeBytes() uint64 {
	r := o.ridgeOrder()
	each := qr.Bytes(r, o.Outputs) + 8*uint64(2*(o.Dimension+o.Outputs)+r+2*o.Outputs) + 64
	if o.scaledRidges() > 0 {
		r = o.scaledOrder()
		each += qr.Bytes(r, 1) + 8*uint64(3*o.Dimension+2+2*r) + 160
	}
	return each
}

func (f *ridgeFit) scaled(at int, v float64) float64 {
	return within((v-f.offsets[at])/f.scales[at], -maxScaled, maxScaled)
}

// fill writes the features of an input, given the lags of which the first seen are known. Strange
// values are cut: one −9999 would decide the fit.
func (f *ridgeFit) fill(l *Learner, z, x, lags []float64, seen uint64) {
	outputs := l.o.Outputs
	z[0] = constant
	for j, v := range x {
		z[1+j] = f.scaled(j, l.cutOf(j, v))
	}
	for i := range z[1+len(x):] {
		z[1+len(x)+i] = 0
		if uint64(i/outputs) < seen {
			z[1+len(x)+i] = f.scaled(len(x)+i%outputs, lags[i])
		}
	}
}

// label is a prediction of an output in the caller's units.
func (f *ridgeFit) label(output int, scaled float64) float64 {
	at := len(f.offsets) - (f.factor.Columns() - output)
	return f.offsets[at] + float64(f.scales[at]*scaled)
}

// leadingSums writes Σ_{i<m} v_i u_i of each label column for m leading features, and returns
// Σ_{i<m} v_i², given v = R⁻ᵀz: the prediction and q of the regression without the others.
func leadingSums(dst []float64, factor *qr.Factor, v []float64, m int) (q float64) {
	clear(dst)
	right, k := factor.Right(), factor.Columns()
	for i, a := range v[:m] {
		q += float64(a * a)
		for j := range dst {
			dst[j] += float64(a * right[i*k+j])
		}
	}
	return q
}

// rotate learns a row of features, whose weight is relative to the mean.
func (f *ridgeFit) rotate(s *openingScratch, z, y []float64, weight float64) {
	root := math.Sqrt(weight)
	for i, v := range z {
		s.row[i] = float64(root * v)
	}
	for j, v := range y {
		s.row[len(z)+j] = float64(root * f.scaled(len(f.offsets)-len(y)+j, v))
	}
	f.factor.Rotate(s.row, s.priors)
}

// refit fits the kept rows anew: with the present units, and the λ of the least leave-one-out
// loss. It keeps the fit if the budget has no room for a refit.
func (f *ridgeFit) refit(l *Learner) bool {
	n := len(l.kept)
	plan := l.o.planRefit(n, f.lambda)
	if plan.checked == 0 {
		return false
	}
	d, k, r := l.o.Dimension, l.o.Outputs, l.o.ridgeOrder()
	f.measure(l)
	p := newProblem(r, k, n)
	p.leading = l.o.leading()
	for i, row := range l.kept {
		f.fill(l, p.rows[i*r:][:r], l.innerOf(l.scratch, row.x), row.lags[:l.o.lags()*k], row.seen)
		for j, y := range row.y {
			p.labels[i*k+j] = f.scaled(d+j, y)
		}
		p.weights[i] = float64(row.weight*float64(n)) / l.weights.Sum
	}
	least := math.Inf(1)
	p.normal()
	fitted := false
	for at := plan.first; at <= plan.last; at++ {
		factor, err := p.solve(lambdas()[at])
		if err != nil {
			continue // The rows leave nothing of λ.
		}
		loss := 0.0
		if plan.first < plan.last {
			all, leading := p.leaveOneOut(factor, plan.checked)
			loss = min(all, leading)
		}
		if loss < least {
			least, f.lambda, f.factor, fitted = loss, at, factor, true
		}
	}
	if !fitted {
		f.factor = qr.New(r, k, lambdas()[f.lambda])
	}
	return true
}

// measure sets the offsets and scales as of now.
func (f *ridgeFit) measure(l *Learner) {
	d := l.o.Dimension
	for j := range d {
		f.offsets[j], f.scales[j] = l.meanOf(j), l.scaleOf(j)
	}
	for j, scale := range l.labels.scale {
		f.offsets[d+j], f.scales[d+j] = l.labels.Mean(j), scale
	}
}

type problem struct {
	order, leading, outputs int
	// rows has the features of the rows, and rows of zeros for whole panels.
	rows, labels, weights []float64
	// gram is Σ w z zᵀ, its upper triangle by rows, and right Σ w y z by outputs.
	gram, right []float64
}

func newProblem(order, outputs, rows int) problem {
	return problem{
		order: order, outputs: outputs, rows: make([]float64, (rows+loops.Rows)*order),
		labels: make([]float64, rows*outputs), weights: make([]float64, rows),
	}
}

func (p *problem) normal() {
	n, r := len(p.weights), p.order
	p.gram, p.right = make([]float64, r*(r+1)/2), make([]float64, r*p.outputs)
	weights := make([]float64, (n+loops.Rows-1)/loops.Rows*loops.Rows)
	copy(weights, p.weights)
	for i := 0; i < len(weights); i += loops.Rows {
		loops.AddSquares(p.gram, p.rows[i*r:], r, r, weights[i:][:loops.Rows])
	}
	for i, w := range p.weights {
		for j := range p.outputs {
			loops.Axpy(p.right[j*r:][:r], p.rows[i*r:][:r], float64(w*p.labels[i*p.outputs+j]))
		}
	}
}

func (p *problem) solve(lambda float64) (*qr.Factor, error) {
	gram, right := append([]float64(nil), p.gram...), append([]float64(nil), p.right...)
	for i, at := 0, 0; i < p.order; i++ {
		gram[at] += lambda
		at += p.order - i
	}
	factor, err := qr.Cholesky(p.order, p.outputs, gram, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller only asks whether there is a factor.
	}
	for j := range p.outputs {
		factor.SetLabels(right[j*p.order:][:p.order], j)
	}
	return factor, nil
}

// leaveOneOut are Σ w (y − ŷ₋)² over the newest checked rows and all outputs, where ŷ₋ is the
// regression on the other rows: with all features, and with the leading ones.
func (p *problem) leaveOneOut(factor *qr.Factor, checked int) (all, leading float64) {
	z, said := make([]float64, p.order), make([]float64, p.outputs)
	n := len(p.weights)
	for i := n - checked; i < n; i++ {
		w := p.weights[i]
		miss := func(q float64) (sum float64) {
			left := math.Max(1-float64(w*q), leastLeft)
			for j, v := range said {
				e := (p.labels[i*p.outputs+j] - v) / left
				sum += float64(w * float64(e*e))
			}
			return sum
		}
		copy(z, p.rows[i*p.order:])
		all += miss(factor.Solve(z, said))
		leading += miss(leadingSums(said, factor, z, p.leading))
	}
	return all, leading
}

func (f *ridgeFit) visit(v *codec.Visitor) {
	v.Int(lambdaCount-1, &f.lambda)
	v.FloatsWithin(model.MaxMagnitude, f.offsets)
	v.FloatsWithin(2*model.MaxMagnitude, f.scales)
	if v.Err() != nil {
		return
	}
	for _, scale := range f.scales {
		if v.Reading() && !(scale >= leastScale) {
			v.Corrupt("a fit in units of %g", scale)
			return
		}
	}
	visitFactor(v, f.factor, lambdas()[f.lambda])
}
