package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/effects"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/qr"
)

// scaledFit is a ridge regression on the features of a ridgeFit and, behind them, the columns of the keys in units of
// labels. The regression learns y or, if no label is negative, log(1 + y/m), m being a hundredth of the mean label. With
// logarithms the lags and the columns of the keys are logarithms too, and each number v stands as v or as logarithm(v),
// whichever correlates more with log(1 + y/m). Leave-one-out chooses λ and the scale by the loss of y. If p is the
// predicted logarithm, and p_i the logarithm that the other rows predict for row i, the prediction of y is
//
//	ρ m e^p − m,  ρ = Σ w e^p_i (1 + y_i/m) / Σ w (e^p_i)²
type scaledFit struct {
	ridgeFit
	logs bool
	// mean is m, ratio ρ. The logarithms are learned as (log − offset)/scale.
	mean, ratio, offset, scale float64
	// sizes are s of the inputs whose logarithms are learned, 0 of the others.
	sizes []float64
}

// leastRise keeps rounding from deciding. A logarithm must add more than leastRise to the correlation, and its input must
// deviate by more.
const leastRise = 1e-9

// scaledOrder is the number of features.
func (o Options) scaledOrder() int {
	order := o.ridgeOrder()
	if o.keyed > 0 {
		order += min(o.keyKinds(), effects.LabelColumns) * o.effects().Groups()
	}
	return order
}

// scaledRidges is the number of scaled fits, at most one.
func (o Options) scaledRidges() int {
	if o.Outputs > 1 || o.scaledOrder() > mostOrder || o.planScaled(firstFit, firstLambda).checked == 0 {
		return 0
	}
	return 1
}

// planScaled plans a refit with both scales.
func (o Options) planScaled(n, lambda int) refitPlan {
	o.Microseconds /= 2
	return o.planFit(o.scaledOrder(), n, lambda)
}

func (o Options) newScaledFit() *scaledFit {
	f := &scaledFit{ridgeFit: *o.newRidgeFit(), scale: 1, sizes: make([]float64, o.Dimension)}
	f.factor = qr.New(o.scaledOrder(), 1, lambdas()[firstLambda])
	return f
}

// fill writes the features of an input, given the columns of the keys.
func (f *scaledFit) fill(l *Learner, z, x, lags, columns []float64, seen uint64) {
	others, at := l.o.ridgeOrder(), len(f.offsets)-1
	f.ridgeFit.fill(l, z[:others], x, lags, seen)
	for i := range z[others:] {
		v := columns[i]
		_, label := keyKind(i, l.view.keyGroups(), len(columns))
		if label {
			v -= f.offsets[at]
		}
		if z[others+i] = within(v/f.scales[at], -maxScaled, maxScaled); label && f.logs {
			z[others+i] = f.scaled(columns[i])
		}
	}
	for j, size := range f.sizes {
		if size > 0 {
			z[1+j] = f.ridgeFit.scaled(j, logarithm(l.cutOf(j, x[j]), size))
		}
	}
	for i := 0; f.logs && i < min(len(lags), int(seen)); i++ {
		z[1+len(x)+i] = f.scaled(lags[i])
	}
}

// scaled is what the regression learns of a label.
func (f *scaledFit) scaled(y float64) float64 {
	if !f.logs {
		return f.ridgeFit.scaled(len(f.offsets)-1, y)
	}
	return (exponential.Log1p(math.Max(0, y/f.mean)) - f.offset) / f.scale
}

// say is the prediction for the features in z, which it overwrites.
func (f *scaledFit) say(z, priors []float64) float64 {
	f.factor.Solve(z, priors)
	if !f.logs {
		return f.label(0, priors[0])
	}
	return float64(f.mean*float64(f.ratio*exponential.Of(f.log(priors[0])))) - f.mean
}

// log is the logarithm that the regression predicts.
func (f *scaledFit) log(scaled float64) float64 {
	const largest = 500
	return within(f.offset+float64(f.scale*scaled), -largest, largest)
}

// rotate learns a row of features, whose weight is relative to the mean.
func (f *scaledFit) rotate(s *openingScratch, z []float64, y, weight float64) {
	root := math.Sqrt(weight)
	for i, v := range z {
		s.scaledRow[i] = float64(root * v)
	}
	s.scaledRow[len(z)] = float64(root * f.scaled(y))
	f.factor.Rotate(s.scaledRow, s.priors)
}

// refit fits the kept rows anew, with the λ and the scale of the least leave-one-out loss.
func (f *scaledFit) refit(l *Learner) bool {
	n, m := len(l.kept), &l.mixers[0]
	plan := l.o.planScaled(n, f.lambda)
	if plan.checked == 0 {
		return false
	}
	f.measure(l)
	p := newProblem(l.o.scaledOrder(), 1, n)
	labels := make([]float64, n)
	for i, row := range l.kept {
		p.weights[i], labels[i] = float64(row.weight*float64(n))/l.weights.Sum, row.y[0]
	}
	least, best := math.Inf(1), *f
	best.factor = nil
	f.logs, f.mean, f.ratio, f.offset, f.scale = false, 1, 1, 0, 1
	clear(f.sizes)
	for range 2 {
		for i, row := range l.kept {
			f.fill(l, p.rows[i*p.order:][:p.order], l.innerOf(l.scratch, row.x), row.lags[:l.o.lags()], row.keyed, row.seen)
			p.labels[i] = f.scaled(labels[i])
		}
		p.normal()
		for at := plan.first; at <= plan.last; at++ {
			factor, err := p.solve(lambdas()[at])
			if err != nil {
				continue // The rows leave nothing of λ.
			}
			f.lambda, f.factor = at, factor
			if loss := f.leaveOneOut(&p, labels, plan.checked, m.low, m.high); loss < least {
				least, best = loss, *f
			}
		}
		if f.mean = smallPart * l.labels.Mean(0); m.low < 0 || !(f.mean > leastScale) || plan.first == plan.last {
			break
		}
		f.takeLogarithms(&p, l.view.numbers, labels)
	}
	if *f = best; f.factor == nil {
		f.logs, f.factor = false, qr.New(p.order, 1, lambdas()[f.lambda])
	}
	return true
}

// takeLogarithms lets the fit learn logarithms: of the labels, and of each number whose logarithm correlates more with
// the logarithms of labels than the number does. The problem has the features without logarithms.
func (f *scaledFit) takeLogarithms(p *problem, numbers []int, labels []float64) {
	f.logs, f.offset, f.scale = true, 0, 1
	for i, y := range labels {
		p.labels[i] = f.scaled(y)
	}
	f.offset, f.scale, _ = p.moments(p.labels)
	f.offsets, f.scales, f.sizes = slices.Clone(f.offsets), slices.Clone(f.scales), make([]float64, len(f.sizes))
	plain, logs := make([]float64, len(labels)), make([]float64, len(labels))
	for _, j := range numbers {
		offset, scale := f.offsets[j], f.scales[j]
		size := math.Max(leastScale, math.Sqrt(float64(offset*offset)+float64(scale*scale)))
		for i := range labels {
			plain[i] = p.rows[i*p.order+1+j]
			logs[i] = logarithm(offset+float64(scale*plain[i]), size)
		}
		_, varies, least := p.moments(plain)
		mean, deviation, correlation := p.moments(logs)
		if varies > leastRise && correlation > least+leastRise {
			f.offsets[j], f.scales[j], f.sizes[j] = mean, deviation, size
		}
	}
}

// moments are the weighted mean and deviation of values, and |their covariance with the labels| / deviation.
func (p *problem) moments(values []float64) (mean, deviation, correlation float64) {
	total, squares := 0.0, 0.0
	for i, v := range values {
		total += p.weights[i]
		off := v - mean
		mean += float64(p.weights[i]/total) * off
		squares += float64(float64(p.weights[i]*off) * (v - mean))
	}
	deviation = math.Max(leastScale, math.Sqrt(squares/total))
	for i, v := range values {
		correlation += float64(float64(p.weights[i]/total*(v-mean)) * p.labels[i] / deviation)
	}
	return mean, deviation, math.Abs(correlation)
}

// leaveOneOut is the loss of the newest checked labels by the regressions on the other rows. It sets ρ.
func (f *scaledFit) leaveOneOut(p *problem, labels []float64, checked int, low, high float64) (loss float64) {
	z, said, from := make([]float64, p.order), make([]float64, 1), len(labels)-checked
	predictions, product, square := make([]float64, checked), 0.0, 0.0
	for i := range predictions {
		w, y := p.weights[from+i], p.labels[from+i]
		copy(z, p.rows[(from+i)*p.order:])
		q := f.factor.Solve(z, said)
		v := y - (y-said[0])/math.Max(1-float64(w*q), leastLeft)
		if !f.logs {
			predictions[i] = f.label(0, v)
			continue
		}
		v = exponential.Of(within(f.log(v), exponential.Log1p(low/f.mean), exponential.Log1p(high/f.mean)))
		predictions[i] = v
		product += float64(float64(w*v) * (1 + labels[from+i]/f.mean))
		square += float64(float64(w*v) * v)
	}
	if f.logs {
		f.ratio = product / square
	}
	for i, v := range predictions {
		if f.logs {
			v = float64(f.mean*float64(f.ratio*v)) - f.mean
		}
		loss += squared(within(v, low, high), labels[from+i], p.weights[from+i])
	}
	return loss
}

func (f *scaledFit) visit(v *codec.Visitor) {
	f.ridgeFit.visit(v)
	v.Bool(&f.logs)
	v.Within(model.MaxMagnitude, &f.mean, &f.ratio, &f.offset, &f.scale)
	v.FloatsWithin(4*model.MaxMagnitude, f.sizes)
	if v.Reading() && f.logs && !(f.mean > 0 && f.ratio > 0 && f.scale >= leastScale) {
		v.Corrupt("logarithms in units of %g of labels of mean %g, times %g", f.scale, f.mean, f.ratio)
	}
	for _, size := range f.sizes {
		if v.Reading() && size != 0 && !(f.logs && size >= leastScale) {
			v.Corrupt("logarithms of inputs in units of %g", size)
			return
		}
	}
}
