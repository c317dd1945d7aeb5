package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/kernel"
	"hindsight/internal/model/ziggurat"
)

func kinds() []kernel.Kernel {
	var out []kernel.Kernel
	for _, kind := range []kernel.Kind{
		kernel.Gaussian, kernel.Laplacian, kernel.Matern12, kernel.Matern32, kernel.Matern52,
		kernel.Cauchy, kernel.RationalQuadratic, kernel.Polynomial, kernel.Linear,
	} {
		out = append(out, kernel.Kernel{Kind: kind, Sigma: 0.8, Alpha: 1.5, Offset: 0.5, Degree: 3})
	}
	return out
}

func vector(rng *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// Values worked out by hand, at a = (1, 0), b = (0, 1), σ = 0.8: r² = 2.
func TestValues(t *testing.T) {
	r := math.Sqrt2
	want := map[kernel.Kind]float64{
		kernel.Gaussian:          math.Exp(-2 / (2 * 0.64)),
		kernel.Laplacian:         math.Exp(-2 / 0.8),
		kernel.Matern12:          math.Exp(-r / 0.8),
		kernel.Matern32:          (1 + math.Sqrt(3)*r/0.8) * math.Exp(-math.Sqrt(3)*r/0.8),
		kernel.Matern52:          (1 + math.Sqrt(5)*r/0.8 + 5*2/(3*0.64)) * math.Exp(-math.Sqrt(5)*r/0.8),
		kernel.Cauchy:            1 / ((1 + 1/0.64) * (1 + 1/0.64)),
		kernel.RationalQuadratic: math.Pow(1+2/(2*1.5*0.64), -1.5),
		kernel.Polynomial:        0.125,
		kernel.Linear:            0,
	}
	for _, k := range kinds() {
		assert.InDelta(t, want[k.Kind], k.At([]float64{1, 0}, []float64{0, 1}), 1e-15, k.Kind)
	}
}

// The rational quadratic kernel keeps its digits for every α. For a large α it
// is the Gaussian kernel: α log1p(s/2α) = s/2 − s²/8α + s³/24α² and so on.
func TestRationalQuadraticTendsToTheGaussian(t *testing.T) {
	for _, alpha := range []float64{1e8, 1e10, 1e13, 1e16, 1e30} {
		k := kernel.Kernel{Kind: kernel.RationalQuadratic, Sigma: 0.8, Alpha: alpha}
		for _, distance := range []float64{0, 1e-3, 0.1, 1, 2, 5} {
			s := distance * distance / 0.64
			want := math.Exp(-s/2 + s*s/(8*alpha) - s*s*s/(24*alpha*alpha))
			assert.InDelta(t, want, k.At([]float64{distance}, []float64{0}), 1e-14*want, "%v %v", alpha, distance)
		}
	}
	// A small α has heavy tails.
	k := kernel.Kernel{Kind: kernel.RationalQuadratic, Sigma: 1, Alpha: 1e-3}
	got, want := k.At([]float64{3}, []float64{0}), math.Pow(1+4500, -1e-3)
	assert.False(t, math.Abs(got-want) > 1e-14, "α = 1e-3: %.17g, want %.17g", got, want)
}

func TestPositiveDefiniteAndSymmetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range kinds() {
		const n = 20
		x := make([][]float64, n)
		gram := mat.NewSymDense(n, nil)
		for i := range x {
			x[i] = vector(rng, 3)
			for j := range i + 1 {
				a, b := k.At(x[i], x[j]), k.At(x[j], x[i])
				assert.Equal(t, b, a, "%s: k(x,y) =, k(y,x) =", k.Kind)
				gram.SetSym(i, j, k.At(x[i], x[j]))
			}
			self := k.At(x[i], x[i])
			assert.True(t, !k.ShiftInvariant() || self == 1, "%s: k(x,x) = %g", k.Kind, self)
		}
		var eigen mat.EigenSym
		require.True(t, eigen.Factorize(gram, false), "no eigenvalues")
		assert.GreaterOrEqual(t, eigen.Values(nil)[0], -1e-9*mat.Trace(gram), k.Kind)
	}
}

func TestFarApart(t *testing.T) {
	for _, k := range kinds() {
		if !k.ShiftInvariant() {
			continue
		}
		for _, v := range []float64{1e200, 1e300} {
			got := k.At([]float64{v, 0}, []float64{-v / 2, 1})
			assert.True(t, got >= 0 && got < 1e-100, "%s at %g: %g", k.Kind, v, got)
		}
	}
}

// E cos(ω·(x−x')) is the kernel.
func TestSpectralDensities(t *testing.T) {
	rng := ziggurat.New(rand.New(rand.NewPCG(2, 2)))
	const draws = 200_000
	for _, k := range kinds() {
		if !k.Spectral() {
			continue
		}
		a, b := []float64{0.3, -0.2, 0.9}, []float64{-0.1, 0.4, 0.5}
		omega, sum, lengths := make([]float64, 3), 0.0, 0.0
		for range draws {
			k.Frequency(omega, rng)
			angle := 0.0
			for i := range omega {
				angle += omega[i] * (a[i] - b[i])
			}
			sum += math.Cos(angle)
			if k.Radial() {
				lengths += math.Exp(-k.Radius(3, rng))
				for i, v := range omega {
					omega[i] = v * v
				}
				lengths -= math.Exp(-math.Sqrt(omega[0] + omega[1] + omega[2]))
			}
		}
		// Five standard deviations of the mean.
		limit := 5 / math.Sqrt(draws)
		got, want := sum/draws, k.At(a, b)
		assert.False(t, math.Abs(got-want) > limit, "%s: %g, want %g", k.Kind, got, want)
		assert.LessOrEqual(t, math.Abs(lengths/draws), 2*limit, "%s: radius and frequency differ by %g", k.Kind, lengths/draws)
	}
}

// Values are those of At, bit for bit, for every kernel and any number of points.
func TestValuesAreAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, k := range kinds() {
		for _, n := range []int{0, 1, 2, 5, 31, 32, 33, 100} {
			x, points, values := vector(rng, 3), vector(rng, 3*n), make([]float64, n)
			if n > 2 {
				copy(points, x)
				points[3] = 1e300 // Further than any square reaches.
			}
			k.Values(values, points, x)
			for i, got := range values {
				want := k.At(points[3*i:3*i+3], x)
				assert.Equal(t, math.Float64bits(want), math.Float64bits(got), "%s, point %d of %d: %g, want %g", k.Kind, i, n, got, want)
			}
		}
		allocated := testing.AllocsPerRun(10, func() { k.Values(make([]float64, 0), nil, nil) })
		assert.True(t, allocated == 0, "%s: Values allocates %g times", k.Kind, allocated)
	}
}

// The Matérn kernels are 0, not NaN, where the square of the distance is near the
// largest float64 and three or five times it are infinite.
func TestMaternFarApart(t *testing.T) {
	for _, kind := range []kernel.Kind{kernel.Matern12, kernel.Matern32, kernel.Matern52} {
		k := kernel.Kernel{Kind: kind, Sigma: 1}
		got := k.At([]float64{1e154}, []float64{0})
		assert.True(t, got == 0, "%s: %g", kind, got)
	}
}

// An integer power is that of the standard library to rounding.
func TestPolynomialPowers(t *testing.T) {
	for degree := range 12 {
		k := kernel.Kernel{Kind: kernel.Polynomial, Offset: 0.25, Degree: degree}
		for _, v := range []float64{-3, -0.25, 0, 0.3, 1.7, 1e20} {
			want := math.Pow(v+0.25, float64(degree))
			assert.InDelta(t, want, k.At([]float64{v}, []float64{1}), 1e-14*math.Abs(want), "%v %v", v, degree)
		}
	}
}
