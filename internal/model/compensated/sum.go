// Package compensated sums numbers without the rounding of each addition.
package compensated

import "math"

// Sum is a compensated sum: its error does not grow with the number of terms.
// The zero value is 0. High and Low together are its state.
//
// Source: Neumaier, ZAMM 54 (1974).
type Sum struct{ High, Low float64 }

// Add adds v.
func (s *Sum) Add(v float64) {
	v = float64(v) // A caller's product is not fused into one use of it and rounded in another.
	t := s.High + v
	if math.Abs(s.High) >= math.Abs(v) {
		s.Low += (s.High - t) + v
	} else {
		s.Low += (v - t) + s.High
	}
	s.High = t
}

// Scale multiplies the sum by f, to the rounding of one product.
func (s *Sum) Scale(f float64) {
	s.High = float64(s.High * f)
	s.Low = float64(s.Low * f)
}

// Value is the sum.
func (s *Sum) Value() float64 { return s.High + s.Low }
