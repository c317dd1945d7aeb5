package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/qr"
)

// Renew leaves the Schur complement of A_jj, b less what A_jj explains of it, and root² in place
// of A_jj.
func TestRenewForgetsAFeature(t *testing.T) {
	const r, k, lambda = 7, 2, 0.3
	for j := range r {
		rng := rand.New(rand.NewPCG(uint64(j), 5))
		f, d := qr.New(r, k, lambda), newDense(r, k, lambda)
		row := qr.NewRow(r + k)
		for range 20 {
			for i := range row {
				row[i] = rng.NormFloat64()
			}
			row[1] += row[0]
			z, y := append([]float64(nil), row[:r]...), append([]float64(nil), row[r:]...)
			f.Rotate(row, make([]float64, k))
			d.add(z, y)
		}
		f.Renew(j, math.Sqrt(lambda))
		corner := d.a.At(j, j)
		a, b := mat.NewSymDense(r, nil), mat.NewDense(r, k, nil)
		for m := range r {
			for n := range m + 1 {
				if m != j && n != j {
					a.SetSym(m, n, d.a.At(m, n)-d.a.At(m, j)*d.a.At(j, n)/corner)
				}
			}
			for c := range k {
				if m != j {
					b.Set(m, c, d.b.At(m, c)-d.a.At(m, j)*d.b.At(j, c)/corner)
				}
			}
		}
		a.SetSym(j, j, lambda)
		d.a, d.b = a, b
		z := make([]float64, r)
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		q, p := d.solve(t, z)
		got := make([]float64, k)
		square := f.Solve(z, got)
		assert.False(t, math.Abs(square-q) > 1e-9*q, "feature %d: q = %g, want %g", j, square, q)
		for c := range p {
			assert.False(t, math.Abs(got[c]-p[c]) > 1e-9, "feature %d: p = %g, want %g", j, got[c], p[c])
		}
	}
}
