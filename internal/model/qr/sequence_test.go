package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/qr"
)

// One pass with several observations gives what a pass with each gives, one after the other,
// bit for bit: the factor, its copies, rotations, priors and residuals.
func TestSequenceIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for trial := range 300 {
		r, k, lambda := trial%140, 1+rng.IntN(4), math.Exp(3*rng.NormFloat64())
		together, apart := qr.New(r, k, lambda), qr.New(r, k, lambda)
		for range 3 {
			turns := make([]qr.Turn, rng.IntN(12))
			for i := range turns {
				turns[i] = qr.Turn{Factor: together, Row: qr.NewRow(r + k), Priors: make([]float64, k), Root: 1}
				copy(turns[i].Row, rowOf(rng, r, k))
				if rng.IntN(2) == 0 {
					for j := range turns[i].Row {
						turns[i].Row[j] += rng.NormFloat64()
					}
				}
			}
			rows, priors := make([][]float64, len(turns)), make([]float64, k)
			for i, turn := range turns {
				rows[i] = clone(turn.Row)
			}
			qr.RotateSequence(turns)
			for i, turn := range turns {
				rotation := apart.Rotate(rows[i], priors)
				if rotation != turn.Rotation || !sameBits(priors, turn.Priors) || !sameBits(rows[i][r:], turn.Row[r:]) {
					t.Fatalf("r = %d, k = %d, observation %d of %d: together %+v, priors %g, row %g; apart %+v, %g, %g",
						r, k, i, len(turns), turn.Rotation, turn.Priors, turn.Row, rotation, priors, rows[i])
				}
			}
			if !sameBits(apart.Packed(), together.Packed()) || !sameBits(apart.Right(), together.Right()) ||
				!sameBits(apart.Diagonal(), together.Diagonal()) {
				t.Fatalf("r = %d, k = %d: %d observations together leave another factor", r, k, len(turns))
			}
		}
	}
}
