package feature

import (
	"fmt"
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

// CentresBytes is what AppendCentres appends, GeneratorBytes what AppendGenerator
// does.
func (s *Sampled) CentresBytes() int {
	return 8 * (1 + len(s.centres) + len(s.sampler.Kept()))
}

// GeneratorBytes is what a rand.PCG encodes to.
const GeneratorBytes = 20

// AppendCentres appends the count of the centres, the centres, and the probabilities
// with which they were kept.
func (s *Sampled) AppendCentres(dst []byte) []byte {
	dst = codec.AppendUint64(dst, uint64(s.Size()))
	dst = codec.AppendFloats(dst, s.centres...)
	return codec.AppendFloats(dst, s.sampler.Kept()...)
}

// AppendGenerator appends the state of the generator.
func (s *Sampled) AppendGenerator(dst []byte) ([]byte, error) {
	dst, err := s.generator.AppendBinary(dst)
	if err != nil {
		return nil, fmt.Errorf("feature: encode the generator: %w", err)
	}
	return dst, nil
}

// ReadCentres is a dictionary of the same options with the centres that are read. It
// refuses what is not a dictionary of KORS, and centres other than those that were
// given.
func (s *Sampled) ReadCentres(reader *codec.Reader) (*Sampled, error) {
	count, d := reader.Uint64(), s.o.Dimension
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if count > uint64(reader.Len()/(8*d)) {
		return nil, fmt.Errorf("%d centres in %d bytes: %w", count, reader.Len(), model.ErrCorruptState)
	}
	m, fresh := int(count), NewSampled(s.o)
	centres := make([]float64, m*d)
	reader.Floats(centres)
	switch {
	case !s.Fixed() && m <= s.o.Capacity:
		return fresh, fresh.regrow(centres, reader)
	case !s.Fixed():
		return nil, fmt.Errorf("%d centres, want at most %d: %w", m, s.o.Capacity, model.ErrCorruptState)
	case !slices.EqualFunc(centres, fresh.centres, sameBits):
		return nil, fmt.Errorf("%d centres, want those of the spec: %w", m, model.ErrCorruptState)
	}
	return fresh, nil
}

// regrow samples the centres again, with the probabilities that are read: the
// same arithmetic in the same order gives the same factors bit for bit.
func (s *Sampled) regrow(centres []float64, reader *codec.Reader) error {
	d := s.o.Dimension
	kept := make([]float64, len(centres)/d)
	reader.Floats(kept)
	if err := reader.Err(); err != nil {
		return err
	}
	for i, p := range kept {
		centre := centres[i*d : (i+1)*d]
		values := make([]float64, i)
		if err := model.CheckFeatures(centre, d, s.InputLimit()); err != nil {
			return fmt.Errorf("centre %d: %w: %w", i, err, model.ErrCorruptState)
		}
		s.Kernels(values, centre)
		again := s.sampler.Probability(values, s.Self(centre))
		if !(p > 0 && math.Abs(p-again) <= sameProbability*p) || !s.Grow(centre) {
			return fmt.Errorf("centre %d, kept with probability %g, is not one of a dictionary: %w", i, p, model.ErrCorruptState)
		}
		s.sampler.Keep(p)
	}
	return nil
}

// ReadGenerator takes over the state of the generator that is read.
func (s *Sampled) ReadGenerator(reader *codec.Reader) error {
	generator := reader.Bytes(GeneratorBytes)
	if err := reader.Err(); err != nil {
		return err
	}
	if err := s.generator.UnmarshalBinary(generator); err != nil {
		return fmt.Errorf("generator: %w: %w", err, model.ErrCorruptState)
	}
	return nil
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// sameProbability is how far a probability may be from the one that another
// machine's rounding gave.
const sameProbability = 1e-6
