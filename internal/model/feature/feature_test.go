package feature_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

func vector(rng *rand.Rand, d int, norm float64) []float64 {
	x, n := make([]float64, d), 0.0
	for i := range x {
		x[i] = rng.NormFloat64()
		n += x[i] * x[i]
	}
	for i := range x {
		x[i] *= norm / math.Sqrt(n)
	}
	return x
}

func features(t *feature.Taylor, x []float64) []float64 {
	z := make([]float64, t.Size())
	t.Map(z, x)
	return z
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// Eq. (10): the same features, in another order, as the formula written out.
func TestTaylorFeatures_HAL_Eq10(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		d, m  int
		sigma float64
	}{{1, 0, 1}, {1, 9, 0.6}, {2, 5, 1}, {3, 4, 2}, {6, 2, 0.9}} {
		taylor := feature.NewTaylor(c.d, c.sigma, c.m)
		oracle := modeltest.TaylorFeatures(c.d, c.sigma, c.m)
		for range 20 {
			x := vector(rng, c.d, 3*rng.Float64())
			got, want := features(taylor, x), oracle(x)
			slices.Sort(got)
			slices.Sort(want)
			require.True(t, len(got) == len(want), "%+v: %d features, want %d", c, len(got), len(want))
			for i := range got {
				require.False(t, math.Abs(got[i]-want[i]) > 1e-14, "%+v at %v: feature %g, want %g", c, x, got[i], want[i])
			}
		}
	}
}

// Lemma 4.3: the features of degree j give the j-th term of the kernel's
// expansion, exp(−(‖x‖²+‖x'‖²)/2σ²) (x·x'/σ²)^j / j!.
func TestTaylorDegrees_HAL_Lemma43(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const d, m, sigma = 3, 6, 0.8
	taylor := feature.NewTaylor(d, sigma, m)
	for range 20 {
		a, b := vector(rng, d, 1), vector(rng, d, 1.3)
		za, zb := features(taylor, a), features(taylor, b)
		start, factorial := 0, 1.0
		for j := range m + 1 {
			end := feature.TaylorSize(d, j, 1<<30)
			factorial *= math.Max(float64(j), 1)
			want := math.Exp(-(dot(a, a)+dot(b, b))/(2*sigma*sigma)) * math.Pow(dot(a, b)/(sigma*sigma), float64(j)) / factorial
			require.InDelta(t, want, dot(za[start:end], zb[start:end]), 1e-14, j)
			start = end
		}
	}
}

func TestTaylorSize(t *testing.T) {
	for d := 1; d <= 70; d += 3 {
		for m := range 40 {
			exact := new(big.Int).Binomial(int64(m+d), int64(d))
			got := feature.TaylorSize(d, m, 1<<40)
			want := 1<<40 + 1
			if exact.IsInt64() && exact.Int64() <= 1<<40 {
				want = int(exact.Int64())
			}
			require.True(t, got == want, "C(%d+%d, %d): %d, want %d", m, d, d, got, want)
		}
	}
	for _, c := range []struct{ d, limit, ceiling, want int }{
		{25, 512, 8, 2}, {9, 512, 8, 3}, {2, 512, 8, 8}, {1, 100, 1000, 99}, {64, 512, 8, 1}, {600, 512, 8, 0}, {5, 1, 8, 0},
	} {
		assert.Equal(t, c.want, feature.LargestTaylorDegree(c.d, c.limit, c.ceiling), c)
	}
}

// Far out the exponential underflows before the monomial brings the feature
// back; logarithms do not.
func TestFarInputs(t *testing.T) {
	const m = 2000
	taylor := feature.NewTaylor(1, 1, m)
	for _, x := range []float64{-41, 40} {
		z := features(taylor, []float64{x})
		total := 0.0
		for k, v := range z {
			lg, _ := math.Lgamma(float64(k + 1))
			want := math.Exp(-x*x/2 + float64(k)*math.Log(math.Abs(x)) - lg/2)
			if k%2 == 1 && x < 0 {
				want = -want
			}
			require.InDelta(t, want, v, 1e-10, "x=%g k=%d: %g, want %g", x, k, v, want)
			total += v * v
		}
		if x == 40 && math.Abs(total-1) > 1e-9 { // Nearly all of k(x,x) = 1 is below degree 2000.
			t.Errorf("x=%g: ‖z‖² = %g, want 1", x, total)
		}
	}
	wide := feature.NewTaylor(3, 1e-5, 3)
	for _, x := range [][]float64{{1e300, -1e300, 0}, {5e-324, 0, 0}, {1, 2, 3}, {3.8e-4, 0, -1e-9}, {0, 0, 0}} {
		for i, v := range features(wide, x) {
			assert.True(t, !math.IsNaN(v) && math.Abs(v) <= 1, "%v: feature %d is %g", x, i, v)
		}
	}
}

func TestAffine(t *testing.T) {
	a := feature.NewAffine(2)
	z := make([]float64, 3)
	a.Map(z, []float64{4, 5})
	assert.True(t, slices.Equal(z, []float64{4, 5, 1}) && a.Size() == 3 && a.Dimension() == 2, "%v", z)
}
