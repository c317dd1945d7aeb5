package effects

import (
	"math"

	"hindsight/internal/model/loops"
)

// The slopes β_c of a single key c multiply what the rest of the row says and the numbers x of the row: with the best
// variant of single keys, e = Σ_c μ_c, and with labels of mean m and deviation d,
//
//	h_c = v + e − μ_c − m,  z_c = (h_c/d, x_1, …, x_q) cut to ±3
//	said    e + d Σ_c β_cᵀz_c
//	learned β_c ← β_c + T_c z_c/(Σ s + Σ zᵀTz + 1/ω) (r − e − d Σ βᵀz)/d,  T_c ← T_c − (T_c z_c)²/(Σ s + Σ zᵀTz + 1/ω)
//
// with a diagonal T_c. A new key has β = 0 and T = t_0. So a store whose labels swing twice as far as the labels of
// others is learned, and so is the price elasticity of each product. There are slopes variants, of which plainSlopes
// have h_c alone.
//
// Sources: Finlay and Wilkinson, The analysis of adaptation in a plant-breeding programme (Australian
// Journal of Agricultural Research 14, 1963), for h; Laird and Ware, Random-effects models for
// longitudinal data (Biometrics 38, 1982), for x; the filter is the filter of the effects.

// slopes is the number of variants of slopes, of which plainSlopes have h alone.
const slopes, plainSlopes = 3, 2

// slopePriors are t_0.
func slopePriors() [slopes]float64 { return [...]float64{.1, 1, .1} }

// Labels has the mean and the deviation of the labels of an output.
type Labels struct{ Mean, Deviation float64 }

const mostSlope = 3 // |z| ≤ mostSlope.

// Products is the number of predictions that multiply: the slopes, and with several inputs the factors.
func (o Options) Products() int {
	if o.Inputs > 1 {
		return slopes + 1
	}
	return slopes
}

func (o Options) slopeNumbers() int { return slopes + (slopes-plainSlopes)*o.Numbers }

// productNumbers is the number of numbers of a slot for an output.
func (o Options) productNumbers() int {
	if o.Inputs > 1 {
		return 2 * (o.slopeNumbers() + rank)
	}
	return 2 * o.slopeNumbers()
}

// productsOf returns the slopes and factors of an output from the numbers of a slot.
func (o Options) productsOf(numbers []float64, output int) []float64 {
	return numbers[outputsAt+each*o.Outputs+o.productNumbers()*output:][:o.productNumbers()]
}

// slopesOf returns β and T of a variant for an output, from the numbers of a slot.
func (o Options) slopesOf(numbers []float64, output, variant int) (values, variances []float64) {
	part, size, width := o.productsOf(numbers, output), o.slopeNumbers(), 1
	if variant >= plainSlopes {
		width += o.Numbers
	}
	return part[variant:][:width], part[size+variant:][:width]
}

func cut(z float64) float64 { return math.Max(-mostSlope, math.Min(mostSlope, z)) }

// eachSlope visits β, T, h/d and x of each variant of the known keys of a row, given the best effect of the row.
func (e *Effects) eachSlope(r *Row, output int, rest float64, labels Labels, visit func(k int, values, variances []float64, h float64, x []float64)) {
	best := e.best(output)
	for _, slot := range r.slots[:e.o.Inputs] {
		if slot == none {
			continue
		}
		numbers := e.numbers(slot)
		h := cut((rest - of(numbers, output)[best] - labels.Mean) / labels.Deviation)
		for k := range slopes {
			values, variances := e.o.slopesOf(numbers, output, k)
			visit(k, values, variances, h, r.x[:len(values)-1])
		}
	}
}

// SayProducts writes what each prediction that multiplies says of an output, given the prediction v.
func (e *Effects) SayProducts(dst []float64, r *Row, output int, v float64, labels Labels) {
	var said [Variants]float64
	e.singles(&said, r, output)
	single := said[e.best(output)]
	for k := range dst {
		dst[k] = single
	}
	e.eachSlope(r, output, v+single, labels, func(k int, values, _ []float64, h float64, x []float64) {
		dst[k] += float64((float64(values[0]*h) + loops.Dot(values[1:], x)) * labels.Deviation)
	})
	if e.o.Inputs > 1 {
		dst[slopes] += float64(e.factored(r, output) * labels.Deviation)
	}
}

// learnProducts learns the label y, given Σ s + 1/ω of each variant in totals. The effects learn y afterwards, because
// h has the effects that predicted.
func (e *Effects) learnProducts(r *Row, output int, totals *[Variants]float64, y, v float64, labels Labels) {
	var said [Variants]float64
	var multiplied [slopes + 1]float64
	e.singles(&said, r, output)
	best := e.best(output)
	e.SayProducts(multiplied[:e.o.Products()], r, output, v, labels)
	var total [slopes]float64
	for k := range total {
		total[k] = totals[best]
	}
	e.eachSlope(r, output, v+said[best], labels, func(k int, _, variances []float64, h float64, x []float64) {
		total[k] += float64(float64(variances[0]*h) * h)
		for i, z := range x {
			total[k] += float64(float64(variances[1+i]*z) * z)
		}
	})
	learn := func(value, variance *float64, z, total, miss float64) {
		gain := float64(*variance*z) / total
		*value = within(*value + float64(gain*miss))
		*variance = math.Max(0, *variance-float64(float64(gain*z)**variance))
	}
	e.eachSlope(r, output, v+said[best], labels, func(k int, values, variances []float64, h float64, x []float64) {
		miss := (y - v - multiplied[k]) / labels.Deviation
		learn(&values[0], &variances[0], h, total[k], miss)
		for i, z := range x {
			learn(&values[1+i], &variances[1+i], z, total[k], miss)
		}
	})
	if e.o.Inputs > 1 {
		e.learnFactors(r, output, totals[best], (y-v-multiplied[slopes])/labels.Deviation)
	}
}
