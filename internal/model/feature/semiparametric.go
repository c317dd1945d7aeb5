package feature

import (
	"fmt"
	"math"

	"hindsight/internal/model"
)

// Semiparametric is the map of a parametric model beside another map φ:
//
//	z(x) = (g·(x_P, 1), φ(x))
//
// for some inputs P. A ridge λ on the weights of z is λ/g² on the weights of (x_P, 1).
type Semiparametric struct {
	shape

	parametric []int
	gain       float64
	rest       *Fourier
}

// NewSemiparametric is the map for P. It panics unless P are inputs of φ and the gain is positive.
func NewSemiparametric(parametric []int, gain float64, rest *Fourier) *Semiparametric {
	for _, i := range parametric {
		if i < 0 || i >= rest.Dimension() {
			panic(fmt.Sprintf("feature: input %d of %d is parametric", i, rest.Dimension()))
		}
	}
	if !(gain > 0) {
		panic(fmt.Sprintf("feature: a gain of %g", gain))
	}
	return &Semiparametric{
		shape: shape{
			dimension: rest.dimension, size: len(parametric) + 1 + rest.size,
			limit: math.Min(rest.limit, SemiparametricInputLimit(gain)), bytes: rest.bytes + 8*uint64(len(parametric)),
		},
		parametric: parametric, gain: gain, rest: rest,
	}
}

// Parametric is P, to be read only.
func (s *Semiparametric) Parametric() []int { return s.parametric }

// Gain is g.
func (s *Semiparametric) Gain() float64 { return s.gain }

// SemiparametricInputLimit is InputLimit for a gain.
func SemiparametricInputLimit(gain float64) float64 { return model.MaxMagnitude / math.Max(gain, 1) }

// Map writes the features of x into z.
func (s *Semiparametric) Map(z, x []float64) {
	p := len(s.parametric)
	for k, i := range s.parametric {
		z[k] = float64(s.gain * x[i])
	}
	z[p] = s.gain
	s.rest.Map(z[p+1:], x)
}
