package effects

import "math"

// The slope β_c of a single key c multiplies what the rest of the row says: with the best variant of single
// keys, e = Σ_c μ_c, and with labels of mean m and deviation d,
//
//	h_c = v + e − μ_c − m, cut to ±3 d,  z_c = h_c/d
//	said    e + Σ_c β_c h_c
//	learned β_c ← β_c + t_c z_c/(Σ s + Σ t z² + 1/ω) (r − e − Σ β h)/d,  t_c ← t_c − t_c² z_c²/(Σ s + Σ t z² + 1/ω)
//
// A new key has β = 0 and t = t_0. So a store whose labels swing twice as far as the labels of others is
// learned, and so is a key that multiplies. There are Slopes variants of t_0.
//
// Source: Finlay and Wilkinson, The analysis of adaptation in a plant-breeding programme (Australian
// Journal of Agricultural Research 14, 1963), for the model; the filter is the filter of the effects.

// Slopes is the number of variants of slopes.
const Slopes = 2

// slopePriors are t_0.
func slopePriors() [Slopes]float64 { return [...]float64{.1, 1} }

// Labels has the mean and the deviation of the labels of an output.
type Labels struct{ Mean, Deviation float64 }

const mostSlope = 3 // |z| ≤ mostSlope.

// slopesOf returns β and t of all variants for an output, from the numbers of a slot.
func (o Options) slopesOf(numbers []float64, output int) (slopes, variances []float64) {
	part := numbers[outputsAt+each*o.Outputs+2*Slopes*output:][:2*Slopes]
	return part[:Slopes], part[Slopes:]
}

// multiplied returns z of a key with effect μ.
func (a Labels) multiplied(v, e, mu float64) float64 {
	return math.Max(-mostSlope, math.Min(mostSlope, (v+e-mu-a.Mean)/a.Deviation))
}

// SaySlopes writes e + Σ β h of each variant for an output, given the prediction v.
func (e *Effects) SaySlopes(dst []float64, r *Row, output int, v float64, labels Labels) {
	var said [Variants]float64
	e.singles(&said, r, output)
	best := e.best(output)
	for k := range dst {
		dst[k] = said[best]
	}
	for _, slot := range r.slots[:e.o.Inputs] {
		if slot == none {
			continue
		}
		z := labels.multiplied(v, said[best], of(e.numbers(slot), output)[best])
		slopes, _ := e.o.slopesOf(e.numbers(slot), output)
		for k, slope := range slopes {
			dst[k] += float64(float64(slope*z) * labels.Deviation)
		}
	}
}

// learnSlopes learns the label y, given Σ s + 1/ω of each variant in totals. The effects learn y afterwards, because
// h has the effects that predicted.
func (e *Effects) learnSlopes(r *Row, output int, totals *[Variants]float64, y, v float64, labels Labels) {
	var said [Variants]float64
	var slopes [Slopes]float64
	e.singles(&said, r, output)
	best := e.best(output)
	e.SaySlopes(slopes[:], r, output, v, labels)
	var total [Slopes]float64
	for k := range total {
		total[k] = totals[best]
	}
	each := func(visit func(k int, slope, variance *float64, z float64)) {
		for _, slot := range r.slots[:e.o.Inputs] {
			if slot == none {
				continue
			}
			z := labels.multiplied(v, said[best], of(e.numbers(slot), output)[best])
			b, t := e.o.slopesOf(e.numbers(slot), output)
			for k := range Slopes {
				visit(k, &b[k], &t[k], z)
			}
		}
	}
	each(func(k int, _, t *float64, z float64) { total[k] += float64(float64(*t*z) * z) })
	each(func(k int, b, t *float64, z float64) {
		gain := float64(*t*z) / total[k]
		*b = within(*b + float64(gain*(y-v-slopes[k])/labels.Deviation))
		*t = math.Max(0, *t-float64(float64(gain*z)**t))
	})
}
