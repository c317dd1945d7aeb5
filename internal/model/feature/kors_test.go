package feature_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/kernel"
)

// The probability is min(β τ̃, 1) with τ̃ as Algorithm 2 has it, solved densely
// over the dictionary with the new point in it at weight 1.
func TestKORSProbability_ICML_Alg2(t *testing.T) {
	for _, k := range []kernel.Kernel{{Kind: kernel.Gaussian, Sigma: 0.3}, {Kind: kernel.Matern12, Sigma: 1}, {Kind: kernel.Cauchy, Sigma: 0.5}} {
		for seed := range uint64(3) {
			const mu, epsilon, beta = 0.5, 0.4, 0.8
			rng := source(seed)
			stream := make([][]float64, 60)
			for n := range stream {
				stream[n] = []float64{rng.Float64()}
			}
			s := korsOver(k, stream, mu, epsilon, beta, seed)
			for n, x := range stream {
				var kept [][]float64
				var probabilities []float64
				for _, c := range s.kept {
					if c < n {
						kept, probabilities = append(kept, stream[c]), append(probabilities, s.probabilities[c])
					}
				}
				got := s.probabilities[n]
				m := len(kept)
				points := append(append([][]float64(nil), kept...), x)
				scale := make([]float64, m+1)
				for i, p := range probabilities {
					scale[i] = 1 / math.Sqrt(p)
				}
				scale[m] = 1
				gram, right := mat.NewSymDense(m+1, nil), mat.NewVecDense(m+1, nil)
				for i := range points {
					for j := i; j <= m; j++ {
						gram.SetSym(i, j, scale[i]*scale[j]*k.At(points[i], points[j]))
					}
					gram.SetSym(i, i, gram.At(i, i)+mu)
					right.SetVec(i, scale[i]*k.At(points[i], x))
				}
				var chol mat.Cholesky
				require.True(t, chol.Factorize(gram), "not positive definite")
				var solved mat.VecDense
				require.NoError(t, chol.SolveVecTo(&solved, right))
				tau := (1 + epsilon) / mu * (k.At(x, x) - mat.Dot(right, &solved))
				want := math.Min(beta*tau, 1)
				require.False(t, math.Abs(got-want) > 1e-9*want, "%s, seed %d, point %d: probability %.15g, want %.15g", k.Kind, seed, n, got, want)
			}
			m := len(s.kept)
			assert.True(t, m != 0 && m <= 59, "%s, seed %d: %d of 60 points kept", k.Kind, seed, m)
		}
	}
}
