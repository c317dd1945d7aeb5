package feature

import (
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/kernel"
)

// SampledOptions are the options of a sampled dictionary.
type SampledOptions struct {
	Kernel    kernel.Kernel
	Dimension int
	// Bound is the largest k(x,x) of an input.
	Bound float64
	// Mu, Epsilon and Beta are KORS's.
	Mu, Epsilon, Beta float64
	Capacity          int
	// Given is a dictionary known beforehand, or nil. With one, nothing is sampled.
	Given [][]float64
	Seed  uint64
}

func (o *SampledOptions) fixed() bool { return len(o.Given) > 0 }

// Cost returns the largest number of centres, the memory of their map, and the cost beside it: the memory of the sampler, and
// what the map and the sampler cost in a round.
func (o *SampledOptions) Cost() (centres int, mapBytes uint64, beside model.Cost) {
	centres = o.Capacity
	if o.fixed() {
		centres = len(o.Given)
	}
	m, d := uint64(centres), uint64(o.Dimension)
	pairs := m * (m + 1) / 2
	return centres, 8 * (m*d + pairs), model.Cost{StateBytes: 8 * (pairs + (2+d)*m), PredictFlops: m*d + m*m/2, ObserveFlops: 2*m*d + m*m}
}

// Sampled is the Nyström map of a dictionary that KORS samples, or that is given. Its state
// is the sampled points, their probabilities and the generator; the factors follow from these.
// A sampled point in the span of the centres is no centre, but the
// sampler knows it: otherwise the leverage of its like stays, and they are drawn again and again.
type Sampled struct {
	Nystrom

	o       SampledOptions
	sampler *KORS
	// points are the sampled points, one after another.
	points []float64
	// draws draws from generator, whose state is part of the learner's.
	generator *rand.PCG
	draws     *rand.Rand
	// values are the kernel values of the point of a draw.
	values []float64
}

// korsStream separates the generator from others of the same seed.
const korsStream = 0x6b6f7273

// NewSampled is the given dictionary, or none. It panics where NewNystrom and NewKORS do.
func NewSampled(o SampledOptions) *Sampled {
	s := &Sampled{
		Nystrom: *NewNystrom(o.Kernel, o.Dimension, o.Bound), o: o,
		sampler: NewKORS(o.Mu, o.Epsilon, o.Beta), generator: rand.NewPCG(o.Seed, korsStream),
	}
	s.draws = rand.New(s.generator)
	for _, centre := range o.Given {
		s.Grow(centre) // A centre in the span of the others adds nothing.
	}
	return s
}

// Fixed reports whether the dictionary is given and never grows.
func (s *Sampled) Fixed() bool { return s.o.fixed() }

// Full reports whether KORS has sampled as many points as it may.
func (s *Sampled) Full() bool { return len(s.sampler.Probabilities()) >= s.o.Capacity }

// Consider draws for a point, adds it if it is drawn, and reports whether it became a centre. A
// full or fixed dictionary does not draw. It costs m kernel values and m² multiply-adds.
func (s *Sampled) Consider(x []float64) (grown bool) {
	if s.Fixed() || s.Full() {
		return false
	}
	m := len(s.sampler.Probabilities())
	if cap(s.values) < m {
		s.values = make([]float64, m, 2*m+8)
	}
	s.values = s.values[:m]
	s.kernel.Values(s.values, s.points, x)
	p := s.sampler.Probability(s.values, s.Self(x))
	if !(s.draws.Float64() < p) {
		return false
	}
	s.sampler.Add(p)
	s.points = append(s.points, x...)
	return s.Grow(x)
}

// SamplerBytes is the memory of the sampler, which Bytes excludes.
func (s *Sampled) SamplerBytes() uint64 { return s.sampler.Bytes() + 8*uint64(len(s.points)) }

// VisitCentres visits the sampled points and their probabilities, or the given centres. A read
// needs a dictionary that has sampled nothing. It adds the points again: the same arithmetic in the same order gives the same factors bit for bit. It rejects what
// is not a dictionary of KORS, and centres other than the given ones.
func (s *Sampled) VisitCentres(v *codec.Visitor) {
	d, centres, probabilities := s.o.Dimension, s.points, s.sampler.Probabilities()
	if s.Fixed() {
		centres = s.centres
	}
	m := len(centres) / d
	if v.Count(&m, 8*d); v.Reading() {
		if !s.Fixed() && m > s.o.Capacity {
			v.Corrupt("%d centres, want at most %d", m, s.o.Capacity)
		}
		centres = make([]float64, m*d)
		if !s.Fixed() {
			probabilities = make([]float64, m)
		}
	}
	v.Floats(centres)
	v.Floats(probabilities)
	if v.Reading() && s.Fixed() && !slices.EqualFunc(centres, s.centres, sameBits) {
		v.Corrupt("%d centres, want those of the spec", m)
	}
	for i, p := range probabilities {
		if !v.Reading() {
			return
		}
		centre, values := centres[i*d:(i+1)*d], make([]float64, i)
		if err := model.CheckFeatures(centre, d, s.InputLimit()); err != nil {
			v.Corrupt("centre %d: %v", i, err)
			return
		}
		s.kernel.Values(values, s.points, centre)
		if !s.sampler.Rejoin(values, s.Self(centre), p) {
			v.Corrupt("centre %d, sampled with probability %g, is not one of a dictionary", i, p)
		}
		s.points = append(s.points, centre...)
		s.Grow(centre)
	}
}

// VisitGenerator visits the state of the generator.
func (s *Sampled) VisitGenerator(v *codec.Visitor) { VisitGenerator(v, s.generator) }

// VisitGenerator visits the state of a generator.
func VisitGenerator(v *codec.Visitor, g *rand.PCG) {
	var room [32]byte
	state, err := g.AppendBinary(room[:0])
	v.Fail(err)
	for i := range state {
		v.Byte(&state[i])
	}
	if v.Reading() {
		if err := g.UnmarshalBinary(state); err != nil {
			v.Corrupt("generator: %v", err)
		}
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
