package kons

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/qr"
)

// AppendBinary appends the inputs and, for each output, its account, coefficients and
// scales, L, V, and with a sketch KORS's rounds; and with a sketch the generator.
func (e *Exact) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, int(e.Size())+8*(1+2*len(e.outputs))+feature.GeneratorBytes)
	dst = codec.AppendUint64(dst, uint64(e.rounds()))
	dst = codec.AppendFloats(dst, e.inputs...)
	for j := range e.outputs {
		d := &e.outputs[j]
		dst = d.appendBinary(&e.o.Options, dst)
		for _, numbers := range [...][]float64{d.coefficients, d.scales, d.factor.Packed(), d.right} {
			dst = codec.AppendFloats(dst, numbers...)
		}
		if k := d.sketch; k != nil {
			dst = codec.AppendUint64(dst, uint64(len(k.places)))
			for _, place := range k.places {
				dst = codec.AppendUint64(dst, uint64(place))
			}
			dst = codec.AppendFloats(codec.AppendFloats(dst, k.scales...), k.sampler.Kept()...)
		}
	}
	if !e.o.sketched() {
		return dst, nil
	}
	dst, err := e.generator.AppendBinary(dst)
	if err != nil {
		return nil, fmt.Errorf("kons: encode the generator: %w", err)
	}
	return dst, nil
}

// Restore replaces the state by one that AppendBinary wrote for the same spec. It
// refuses numbers that no stream of observations leads to.
func (e *Exact) Restore(state []byte) error {
	restored, err := e.decode(codec.NewReader(state))
	if err != nil {
		return fmt.Errorf("kons: restore kons: %w", err)
	}
	e.inputs, e.outputs, e.generator, e.draws = restored.inputs, restored.outputs, restored.generator, restored.draws
	return nil
}

func (e *Exact) decode(reader *codec.Reader) (*Exact, error) {
	fresh := NewExact(e.o)
	t := reader.Count(8 * (e.o.Dimension + 2*e.o.Outputs))
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if t > e.o.Capacity {
		return nil, fmt.Errorf("%d observations, want at most %d: %w", t, e.o.Capacity, model.ErrCorruptState)
	}
	fresh.inputs = make([]float64, t*e.o.Dimension)
	reader.FloatsWithin(e.limit, fresh.inputs)
	for j := range fresh.outputs {
		if err := fresh.read(reader, j, t); err != nil {
			return nil, fmt.Errorf("output %d: %w", j, err)
		}
	}
	if e.o.sketched() {
		generator := reader.Bytes(feature.GeneratorBytes)
		if err := reader.Err(); err != nil {
			return nil, err
		}
		if err := fresh.generator.UnmarshalBinary(generator); err != nil {
			return nil, fmt.Errorf("generator: %w: %w", err, model.ErrCorruptState)
		}
	}
	return fresh, reader.End()
}

// maxCoefficient bounds a coefficient and an entry of V, maxScale a scale: |ġ|√(ηω) is
// at most √(2ω) for η = σ(C).
const (
	maxCoefficient = 1e240
	maxScale       = 1e12
)

// read reads an output with t rounds.
func (e *Exact) read(reader *codec.Reader, j, t int) error {
	d := &e.outputs[j]
	var first *account
	if j > 0 {
		first = &e.outputs[0].account
	}
	var err error
	if d.account, err = readAccount(reader, &e.o.Options, first); err != nil {
		return err
	}
	if d.Rounds != uint64(t) {
		return fmt.Errorf("an account of %d rounds, inputs of %d: %w", d.Rounds, t, model.ErrCorruptState)
	}
	if reader.Len() < 16*t { // Before memory is taken.
		return fmt.Errorf("%d bytes for %d rounds: %w", reader.Len(), t, model.ErrCorruptState)
	}
	d.coefficients, d.scales = make([]float64, t), make([]float64, t)
	reader.FloatsWithin(maxCoefficient, d.coefficients)
	reader.FloatsWithin(maxScale, d.scales)
	if err := reader.Err(); err != nil {
		return err
	}
	if err := d.readFactor(reader, &e.o); err != nil {
		return err
	}
	if d.sketch == nil {
		return nil
	}
	return e.readSketch(reader, d.sketch, t)
}

// readFactor reads L and V of the rounds that have a scale.
func (d *dual) readFactor(reader *codec.Reader, o *ExactOptions) error {
	m := 0
	for _, scale := range d.scales {
		if scale != 0 {
			m++
		}
	}
	if reader.Len() < 8*(qr.LowerSize(m)+m) { // Before memory is taken.
		return fmt.Errorf("%d bytes for a factor of order %d: %w", reader.Len(), m, model.ErrCorruptState)
	}
	packed := make([]float64, qr.LowerSize(m))
	reader.Floats(packed)
	d.right = make([]float64, m)
	reader.FloatsWithin(maxCoefficient, d.right)
	if err := reader.Err(); err != nil {
		return err
	}
	// The diagonal is at least √α, and a row has the length √(d²k(x,x) + α).
	root := math.Sqrt(d.ridge(&o.Options))
	longest := float64(maxScale*math.Sqrt(math.Max(1, KernelRange*o.Alpha))) + root
	factor, err := qr.LowerFromPacked(m, packed, root/2, 2*longest)
	if err != nil {
		return fmt.Errorf("%w: %w", err, model.ErrCorruptState)
	}
	d.factor = factor
	for i := range m {
		d.logDet += 2 * exponential.Log(factor.Row(i)[i]/root)
	}
	return nil
}

// sameProbability is how far a probability may be from the one that another machine's
// rounding gave.
const sameProbability = 1e-6

// readSketch samples KORS's rounds again, with the probabilities that are read: the
// same arithmetic in the same order gives the same sampler bit for bit.
func (e *Exact) readSketch(reader *codec.Reader, k *sketch, t int) error {
	count := reader.Count(24)
	if err := reader.Err(); err != nil {
		return err
	}
	k.places, k.scales = make([]int, count), make([]float64, count)
	for i := range k.places {
		place := reader.Uint64()
		if place >= uint64(t) || (i > 0 && place <= uint64(k.places[i-1])) {
			return fmt.Errorf("round %d of KORS at %d of %d: %w", i, place, t, model.ErrCorruptState)
		}
		k.places[i] = int(place)
	}
	kept := make([]float64, count)
	reader.FloatsWithin(maxScale, k.scales)
	reader.Floats(kept)
	if err := reader.Err(); err != nil {
		return err
	}
	d := e.o.Dimension
	room := make([]float64, count)
	for i, p := range kept {
		x, scale := e.inputs[k.places[i]*d:(k.places[i]+1)*d], k.scales[i]
		for before := range i {
			at := k.places[before]
			value := e.o.Kernel.At(e.inputs[at*d:(at+1)*d], x)
			room[before] = float64(float64(k.scales[before]*scale) * value)
		}
		again := k.sampler.Probability(room[:i], float64(float64(scale*scale)*e.o.Kernel.At(x, x)))
		if !(p > 0 && math.Abs(p-again) <= sameProbability*p) {
			return fmt.Errorf("round %d of KORS, kept with probability %g, want %g: %w", i, p, again, model.ErrCorruptState)
		}
		k.sampler.Keep(p)
	}
	return nil
}
