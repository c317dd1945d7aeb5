package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/qr"
)

// Observations that are solved abreast have the predictions and squares of one by one, bit for bit,
// also where entries are 0.
func TestAbreastIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for trial := range 200 {
		r, k := rng.IntN(130), 1+rng.IntN(4)
		f, priors := qr.New(r, k, math.Exp(3*rng.NormFloat64())), make([]float64, k)
		for range rng.IntN(20) {
			f.Rotate(rowOf(rng, r, k), priors)
		}
		z, together := make([]float64, r*qr.Abreast), make([]float64, k*qr.Abreast)
		var rows [qr.Abreast][]float64
		for n := range rows {
			rows[n] = rowOf(rng, r, 0)
			for i, v := range rows[n] {
				z[i*qr.Abreast+n] = v
			}
		}
		var squares [qr.Abreast]float64
		f.SolveAbreast(z, together, &squares)
		for n, row := range rows {
			square, own := f.Solve(row, priors), make([]float64, k)
			for c := range own {
				own[c] = together[c*qr.Abreast+n]
			}
			if math.Float64bits(square) != math.Float64bits(squares[n]) || !sameBits(own, priors) {
				t.Fatalf("trial %d, r = %d, k = %d, observation %d: %g, %g abreast, %g, %g alone", trial, r, k, n, squares[n], own, square, priors)
			}
		}
	}
}
