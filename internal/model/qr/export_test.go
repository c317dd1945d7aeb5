package qr

import (
	"math"

	"hindsight/internal/model/codec"
)

// FromPacked is the factor that Visit reads from packed rows.
func FromPacked(r, k int, data []float64, lowest, limit float64) (*Factor, error) {
	f := New(r, k, 1)
	v := codec.Reading(codec.AppendFloats(nil, data...))
	f.Visit(&v, lowest, limit)
	return f, v.End()
}

// LowerFromPacked is the factor that Visit reads from packed rows.
func LowerFromPacked(m int, data []float64, lowest, limit float64) (*Lower, error) {
	var l Lower
	v := codec.Reading(codec.AppendFloats(nil, data...))
	l.Visit(&v, m, lowest, limit)
	return &l, v.End()
}

// Packed is a copy of the rows, one after the other.
func (f *Factor) Packed() []float64 {
	var packed []float64
	for _, row := range f.rows {
		packed = append(packed, row...)
	}
	return packed
}

// Packed is the packed rows.
func (l *Lower) Packed() []float64 { return l.data }

// LogDet is log det A_t − log det A_{t−1} = log(1+q) = −2 log γ.
func (r Rotation) LogDet() float64 {
	if r.Leverage < 0.5 {
		return -math.Log1p(-r.Leverage)
	}
	return -2 * math.Log(r.Gamma)
}
