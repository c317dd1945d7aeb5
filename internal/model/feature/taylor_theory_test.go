package feature_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// lemma44 is (R/σ)^{2M+2}/(M+1)!.
func lemma44(radius, sigma float64, m int) float64 {
	bound := 1.0
	for j := 1; j <= m+1; j++ {
		bound *= radius * radius / (sigma * sigma) / float64(j)
	}
	return bound
}

// Lemma 4.4, pointwise, where it is hardest: at x = x' and x = −x' on the
// sphere, for many degrees and dimensions, against the formula written out. At
// x = x' the error is the tail of a Poisson distribution, in closed form.
func TestTaylorErrorIsPointwise_HAL_Lemma44(t *testing.T) {
	used := 0.0
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 44))
		for _, c := range []struct{ d, m int }{{1, 0}, {1, 3}, {1, 30}, {2, 1}, {2, 8}, {2, 14}, {3, 9}, {5, 4}, {8, 3}, {20, 1}, {12, 2}} {
			for _, ratio := range []float64{0.1, 0.5, 1, 2, 4} {
				sigma := math.Exp(rng.NormFloat64())
				radius := ratio * sigma
				bound := lemma44(radius, sigma, c.m)
				got := feature.TaylorError(radius, sigma, c.m)
				require.False(t, math.Abs(got-bound) > 1e-12*bound, "seed %d, %+v, R/σ = %g: TaylorError %g, want %g", seed, c, ratio, got, bound)
				taylor, kernel := feature.NewTaylor(c.d, sigma, c.m), modeltest.Gaussian(sigma)
				a := vector(rng, c.d, radius)
				opposite := make([]float64, c.d)
				for i, v := range a {
					opposite[i] = -v
				}
				within := vector(rng, c.d, radius*rng.Float64())
				z := features(taylor, a)
				for _, b := range [][]float64{a, opposite, within, vector(rng, c.d, radius)} {
					off := math.Abs(kernel(a, b) - dot(z, features(taylor, b)))
					assert.False(t, off > bound+1e-14, "seed %d, %+v, R/σ = %g: error %g, bound %g", seed, c, ratio, off, bound)
					if bound > 1e-10 {
						used = math.Max(used, off/bound)
					}
				}
				s := ratio * ratio
				tail, term := 0.0, math.Exp(-s)
				for j := 1; j < 400; j++ {
					if term *= s / float64(j); j > c.m {
						tail += term
					}
				}
				got = 1 - dot(z, z)
				assert.False(t, math.Abs(got-tail) > 1e-13, "seed %d, %+v, R/σ = %g: 1−‖z‖² = %g, want %g", seed, c, ratio, got, tail)
			}
		}
	}
	t.Logf("of the bound at most %.3f is used", used)
	assert.False(t, used < 0.5, "of the bound only %g is used", used)
}

// Theorem 4.1, first part: the M that it chooses has at most
// (3 + 21R²/σ²d ∨ 6/d log(2n(1+κ)/(λ∧λ⁻¹)))^d features; and what is said below
// it, d_eff(λ) ≤ 3(6 + 41R²/2σ²d + 3/d log(n/λ))^d, for random inputs.
func TestTaylorSize_HAL_Thm41(t *testing.T) {
	used := 0.0
	for d := 1; d <= 6; d++ {
		for _, ratio := range []float64{0.01, 0.3, 1, 2, 3} {
			for _, n := range []float64{1, 100, 1e6} {
				for _, lambda := range []float64{1e-3, 1, 50} {
					logTerm := math.Log(4 * n / math.Min(lambda, 1/lambda))
					m := int(math.Ceil(math.Max(8*ratio*ratio, 2*logTerm)))
					bound := math.Pow(3+math.Max(21*ratio*ratio, 6*logTerm)/float64(d), float64(d))
					r := feature.TaylorSize(d, m, 1<<60)
					used = math.Max(used, float64(r)/bound)
					assert.False(t, float64(r) > bound, "d=%d, R/σ=%g, n=%g, λ=%g: M = %d with %d features, bound %g", d, ratio, n, lambda, m, r, bound)
				}
			}
		}
	}
	effective := 0.0
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 41))
		for _, c := range []struct {
			d      int
			lambda float64
		}{{1, 1e-4}, {1, 1}, {2, 1e-2}, {3, 0.1}, {3, 50}} {
			const n = 80
			sigma, radius := 0.05+rng.Float64(), 0.2+rng.Float64()
			kernel := modeltest.Gaussian(sigma)
			gram := mat.NewSymDense(n, nil)
			points := make([][]float64, n)
			for i := range points {
				points[i] = vector(rng, c.d, radius)
				for j := range i + 1 {
					gram.SetSym(i, j, kernel(points[i], points[j]))
				}
			}
			got := 0.0
			for _, v := range eigenvalues(t, gram) {
				got += math.Max(v, 0) / (math.Max(v, 0) + c.lambda)
			}
			d := float64(c.d)
			bound := 3 * math.Pow(6+41/d*radius*radius/(2*sigma*sigma)+3/d*math.Log(n/c.lambda), d)
			effective = math.Max(effective, got/bound)
			assert.False(t, got > bound, "seed %d, %+v, R/σ = %g: d_eff %g, bound %g", seed, c, radius/sigma, got, bound)
		}
	}
	t.Logf("of the features' bound at most %.3f is used, of that of d_eff %.3f", used, effective)
}
