package feature

import (
	"math"
	"math/rand/v2"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/kernel"
)

// SampledOptions say what a sampled dictionary is.
type SampledOptions struct {
	Kernel    kernel.Kernel
	Dimension int
	// Bound is the largest k(x,x) of an input.
	Bound float64
	// Mu, Epsilon and Beta are KORS's.
	Mu, Epsilon, Beta float64
	// Capacity caps the centres: at the cap no point is added.
	Capacity int
	// Given is a dictionary known beforehand. With one, nothing is sampled.
	Given [][]float64
	// Seed seeds the sampling.
	Seed uint64
}

// Sampled is the Nyström map of a dictionary whose centres KORS samples, or that was
// given. Its state is made of the centres, the probabilities with which they were
// kept and the generator; factors follow from these.
type Sampled struct {
	Nystrom

	o       SampledOptions
	sampler *KORS
	// draws draws from generator, whose state is part of the learner's.
	generator *rand.PCG
	draws     *rand.Rand
	// values is the kernel values of the point being drawn for.
	values []float64
}

// korsStream tells the generator from others of the same seed.
const korsStream = 0x6b6f7273

// NewSampled is a dictionary without centres, or the one that is given. It panics
// where NewNystrom and NewKORS do.
func NewSampled(o SampledOptions) *Sampled {
	s := &Sampled{
		Nystrom: *NewNystrom(o.Kernel, o.Dimension, o.Bound), o: o,
		sampler: NewKORS(o.Mu, o.Epsilon, o.Beta), generator: rand.NewPCG(o.Seed, korsStream),
	}
	s.draws = rand.New(s.generator)
	for _, centre := range o.Given {
		s.Grow(centre) // One in the span of the others adds nothing.
	}
	return s
}

// Fixed says that the dictionary was given, so that it never grows.
func (s *Sampled) Fixed() bool { return len(s.o.Given) > 0 }

// Consider draws for a point, adds it when it is kept, and tells whether it did. Where
// no centre may be added there is no draw. It costs m kernel values and m²
// multiply-adds.
func (s *Sampled) Consider(x []float64) (grown bool) {
	m := s.Size()
	if s.Fixed() || m >= s.o.Capacity {
		return false
	}
	if cap(s.values) < m {
		s.values = make([]float64, m, 2*m+8)
	}
	s.values = s.values[:m]
	s.Kernels(s.values, x)
	p := s.sampler.Probability(s.values, s.Self(x))
	if !(s.draws.Float64() < p) || !s.Grow(x) {
		return false
	}
	s.sampler.Keep(p)
	return true
}

// SamplerBytes is the memory of the sampler, beside that of the map.
func (s *Sampled) SamplerBytes() uint64 { return s.sampler.Bytes() }

// VisitCentres visits the centres and the probabilities with which they were kept. A read
// into a dictionary that has sampled nothing refuses what is not a dictionary of KORS, and
// centres other than the given ones. It samples the centres again: the same arithmetic in
// the same order gives the same factors bit for bit.
func (s *Sampled) VisitCentres(v *codec.Visitor) {
	m, d, centres, kept := s.Size(), s.o.Dimension, s.centres, s.sampler.Kept()
	if v.Count(&m, 8*d); v.Reading() {
		if !s.Fixed() && m > s.o.Capacity {
			v.Corrupt("%d centres, want at most %d", m, s.o.Capacity)
		}
		centres = make([]float64, m*d)
		if !s.Fixed() {
			kept = make([]float64, m)
		}
	}
	v.Floats(centres)
	v.Floats(kept)
	if v.Reading() && s.Fixed() && !slices.EqualFunc(centres, s.centres, sameBits) {
		v.Corrupt("%d centres, want those of the spec", m)
	}
	for i, p := range kept {
		if !v.Reading() {
			return
		}
		centre, values := centres[i*d:(i+1)*d], make([]float64, i)
		if err := model.CheckFeatures(centre, d, s.InputLimit()); err != nil {
			v.Corrupt("centre %d: %v", i, err)
			return
		}
		s.Kernels(values, centre)
		if !s.sampler.Rejoin(values, s.Self(centre), p) || !s.Grow(centre) {
			v.Corrupt("centre %d, kept with probability %g, is not one of a dictionary", i, p)
		}
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
