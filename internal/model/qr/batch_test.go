package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model/qr"
)

// Many observations of one state, without touching its factor: with V = R⁻ᵀZ,
// S = VᵀV and e = Vᵀu of the rows Z, for i = 1..k in turn
//
//	q_i = S_ii, p_i = e_i, ŷ_i = e_i/(1+S_ii), and then for all a, b > i
//	S_ab −= S_ai S_ib/(1+S_ii), e_a += S_ai (y_i − e_i)/(1+S_ii)
//
// are what one Rotate after the other yields: prediction, leverage, growth of
// L* (y_i−p_i)²/(1+q_i) and of log det.
func TestBatchRecursionIsOneByOne(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 13))
		r, columns, rows := 1+rng.IntN(12), 1+rng.IntN(3), 1+rng.IntN(20)
		f := qr.New(r, columns, math.Exp(2*rng.NormFloat64()))
		draw := func() (z, y []float64) {
			z, y = make([]float64, r), make([]float64, columns)
			for i := range z {
				if rng.IntN(4) > 0 { // Some are exactly 0.
					z[i] = rng.NormFloat64()
				}
			}
			for j := range y {
				y[j] = rng.NormFloat64()
			}
			return z, y
		}
		p := make([]float64, columns)
		for range rng.IntN(30) {
			z, y := draw()
			f.Rotate(append(z, y...), p)
		}
		var v, z, y, e [][]float64
		for n := range rows {
			zn, yn := draw()
			if n > 0 && rng.IntN(4) == 0 {
				zn = append([]float64(nil), z[rng.IntN(n)]...) // Seen before.
			}
			vn, en := append([]float64(nil), zn...), make([]float64, columns)
			f.Solve(vn, en)
			z, y, v, e = append(z, zn), append(y, yn), append(v, vn), append(e, en)
		}
		s := make([][]float64, rows)
		for a := range s {
			s[a] = make([]float64, rows)
			for b := range s[a] {
				for i, w := range v[a] {
					s[a][b] += w * v[b][i]
				}
			}
		}
		for i := range rows {
			q := s[i][i]
			rotation := f.Rotate(append(append([]float64(nil), z[i]...), y[i]...), p)
			agree(t, seed, i, "leverage", rotation.Leverage, q/(1+q))
			agree(t, seed, i, "log det", rotation.LogDet(), math.Log1p(q))
			for j, prior := range p {
				agree(t, seed, i, "prediction", rotation.Gamma*rotation.Gamma*prior, e[i][j]/(1+q))
			}
			column, priors := make([]float64, rows), append([]float64(nil), e[i]...)
			for a := range rows {
				column[a] = s[a][i]
			}
			for a := i + 1; a < rows; a++ {
				for j := range priors {
					e[a][j] += column[a] * (y[i][j] - priors[j]) / (1 + q)
				}
				for b := i + 1; b < rows; b++ {
					s[a][b] -= column[a] * column[b] / (1 + q)
				}
			}
		}
	}
}

func agree(t *testing.T, seed uint64, row int, what string, got, want float64) {
	t.Helper()
	require.True(t, math.Abs(got-want) <= 1e-10*(1+math.Abs(want)), "seed %d, row %d: %s %.17g, want %.17g", seed, row, what, got, want)
}
