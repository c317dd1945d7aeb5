package kons

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
)

// Visit visits the inputs and, for each output, its account, coefficients and
// scales, L, V, and with a sketch KORS's rounds; and with a sketch the generator.
func (e *Exact) Visit(v *codec.Visitor) {
	t := e.rounds()
	if v.Count(&t, 8*(e.o.Dimension+2*e.o.Outputs)); v.Reading() {
		if t > e.o.Capacity {
			v.Corrupt("%d observations, want at most %d", t, e.o.Capacity)
			return
		}
		e.inputs = make([]float64, t*e.o.Dimension)
	}
	v.FloatsWithin(e.limit, e.inputs)
	for j := range e.outputs {
		e.visitOutput(v, &e.outputs[j], t)
	}
	if e.o.sketched() {
		feature.VisitGenerator(v, e.generator)
	}
}

// maxCoefficient bounds a coefficient and an entry of V, maxScale a scale: |ġ|√(ηω) is
// at most √(2ω) for η = σ(C).
const (
	maxCoefficient = 1e240
	maxScale       = 1e12
)

func (e *Exact) visitOutput(v *codec.Visitor, d *dual, t int) {
	d.visit(v, &e.o.Options, &e.outputs[0].account)
	if v.Reading() {
		if d.Rounds != uint64(t) || v.Left() < 16*t {
			v.Corrupt("an account of %d rounds in %d bytes, inputs of %d", d.Rounds, v.Left(), t)
			return
		}
		d.coefficients, d.scales = make([]float64, t), make([]float64, t)
	}
	v.FloatsWithin(maxCoefficient, d.coefficients)
	v.FloatsWithin(maxScale, d.scales)
	m := 0 // How many rounds have a scale.
	for _, scale := range d.scales {
		if scale != 0 {
			m++
		}
	}
	// The diagonal is at least √α, and a row has the length √(d²k(x,x) + α).
	root := math.Sqrt(d.ridge(&e.o.Options))
	longest := float64(maxScale*math.Sqrt(math.Max(1, KernelRange*e.o.Alpha))) + root
	if d.factor.Visit(v, m, root/2, 2*longest); v.Reading() {
		d.right = make([]float64, m)
		for i := range m {
			d.logDet += 2 * exponential.Log(d.factor.Row(i)[i]/root)
		}
	}
	v.FloatsWithin(maxCoefficient, d.right)
	if d.sketch != nil {
		e.visitSketch(v, d.sketch, t)
	}
}

// visitSketch visits KORS's rounds, out of t. A read samples them again, with the
// probabilities that are read: see feature.KORS.Rejoin.
func (e *Exact) visitSketch(v *codec.Visitor, k *sketch, t int) {
	count, probabilities := len(k.places), k.sampler.Probabilities()
	if v.Count(&count, 24); v.Reading() {
		k.places, k.scales, probabilities = make([]int, count), make([]float64, count), make([]float64, count)
	}
	for i := range k.places {
		v.Int(t, &k.places[i])
		if v.Reading() && (k.places[i] == t || (i > 0 && k.places[i] <= k.places[i-1])) {
			v.Corrupt("round %d of KORS at %d of %d", i, k.places[i], t)
		}
	}
	v.FloatsWithin(maxScale, k.scales)
	v.Floats(probabilities)
	if !v.Reading() {
		return
	}
	room := make([]float64, count)
	for i, p := range probabilities {
		x, scale := e.input(k.places[i]), k.scales[i]
		for before := range i {
			value := e.o.Kernel.At(e.input(k.places[before]), x)
			room[before] = float64(float64(k.scales[before]*scale) * value)
		}
		if !k.sampler.Rejoin(room[:i], float64(float64(scale*scale)*e.o.Kernel.At(x, x)), p) {
			v.Corrupt("round %d of KORS, sampled with probability %g", i, p)
			return
		}
	}
}
