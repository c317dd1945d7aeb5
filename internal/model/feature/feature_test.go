package feature_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
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

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func inner(f *feature.Fourier, a, b []float64) float64 {
	za, zb := make([]float64, f.Size()), make([]float64, f.Size())
	f.Map(za, a)
	f.Map(zb, b)
	return dot(za, zb)
}

func TestFourierApproximatesItsKernel(t *testing.T) {
	for _, k := range []kernel.Kernel{
		{Kind: kernel.Gaussian, Sigma: 0.7},
		{Kind: kernel.Laplacian, Sigma: 2},
		{Kind: kernel.Matern12, Sigma: 1},
		{Kind: kernel.Matern32, Sigma: 1},
		{Kind: kernel.Matern52, Sigma: 1},
		{Kind: kernel.Cauchy, Sigma: 1},
	} {
		for _, orthogonal := range []bool{false, true} {
			if orthogonal && !k.Radial() {
				continue
			}
			f := feature.NewFourier(k, 3, 20_000, orthogonal, source(3))
			rng := source(4)
			for range 10 {
				a, b := vector(rng, 3, rng.Float64()), vector(rng, 3, rng.Float64())
				got, want := inner(f, a, b), k.At(a, b)
				assert.False(t, math.Abs(got-want) > 0.04, "%s, orthogonal %v: %g, want %g", k.Kind, orthogonal, got, want)
				self := inner(f, a, a)
				assert.False(t, math.Abs(self-1) > 1e-12, "%s: ‖z‖² = %g", k.Kind, self)
			}
		}
	}
}

func TestFourierIsThatOfItsSeed(t *testing.T) {
	k := kernel.Kernel{Kind: kernel.Matern32, Sigma: 1}
	x := []float64{1, 2, 3}
	z := func(seed uint64) string {
		out := make([]float64, 14)
		feature.NewFourier(k, 3, 7, true, source(seed)).Map(out, x)
		return fmt.Sprint(out)
	}
	first, again := z(1), z(1)
	assert.True(t, first == again && first != z(2), "the features are not those of their seed")
}

// moment is the mean and the variance of the kernel's estimate at one pair of
// points, over many draws of the features.
type moment struct{ n, sum, squares, fourth float64 }

// add takes the difference to the kernel.
func (m *moment) add(v float64) {
	m.n++
	m.sum += v
	m.squares += v * v
	m.fourth += v * v * v * v
}

func (m *moment) mean() float64 { return m.sum / m.n }

// variance is about the kernel itself, of which the estimate is unbiased.
func (m *moment) variance() float64 { return m.squares / m.n }

// meanError and varianceError are standard errors.
func (m *moment) meanError() float64 { return math.Sqrt(m.variance() / m.n) }

func (m *moment) varianceError() float64 {
	return math.Sqrt((m.fourth/m.n - m.variance()*m.variance()) / m.n)
}

// estimates draws features of a kernel many times over and looks at the pairs
// (0 + c, r·u + c) of a direction u, for every distance r.
func estimates(k kernel.Kernel, dimension, frequencies, draws int, orthogonal bool, distances []float64, seed uint64) []moment {
	rng := source(seed)
	origin, direction := vector(rng, dimension, 1), vector(rng, dimension, 1)
	points, want := make([][]float64, len(distances)), make([]float64, len(distances))
	for n, r := range distances {
		points[n] = make([]float64, dimension)
		for j, u := range direction {
			points[n][j] = origin[j] + r*u
		}
		want[n] = k.At(origin, points[n])
	}
	out := make([]moment, len(distances))
	z, other := make([]float64, 2*frequencies), make([]float64, 2*frequencies)
	for range draws {
		f := feature.NewFourier(k, dimension, frequencies, orthogonal, rng)
		f.Map(z, origin)
		for n, x := range points {
			f.Map(other, x)
			out[n].add(dot(z, other) - want[n])
		}
	}
	return out
}

// Eqs. (5)-(7): E z(x)·z(x') = k(x,x') for every kernel with a spectral density,
// and for orthogonal frequencies where the kernel is radial, ("to ensure
// unbiasedness", below eq. (13)): the mean over the draws within four standard
// errors at every distance, with blocks of frequencies that are whole or cut.
func TestFourierIsUnbiased_JMLR_Eq7(t *testing.T) {
	const draws = 1500
	distances := []float64{0.05, 0.5, 1, 2, 4}
	for _, kind := range []kernel.Kind{
		kernel.Gaussian, kernel.Laplacian, kernel.Matern12, kernel.Matern32, kernel.Matern52, kernel.Cauchy,
	} {
		for _, orthogonal := range []bool{false, true} {
			k := kernel.Kernel{Kind: kind, Sigma: 1.3}
			if orthogonal && !k.Radial() {
				continue
			}
			for _, c := range []struct{ dimension, frequencies int }{{1, 3}, {4, 4}, {5, 7}} {
				seed := uint64(c.dimension)
				t.Run(fmt.Sprintf("%s, orthogonal %v, d=%d", kind, orthogonal, c.dimension), func(t *testing.T) {
					worst := 0.0
					for n, m := range estimates(k, c.dimension, c.frequencies, draws, orthogonal, distances, seed) {
						off := math.Abs(m.mean()) / m.meanError()
						worst = math.Max(worst, off)
						assert.True(t, off <= 4, "seed %d, distance %g: the mean is %.3g off, standard error %.3g", seed, distances[n], m.mean(), m.meanError())
						if limit := 1 / float64(c.frequencies); m.variance() > limit {
							t.Errorf("seed %d, distance %g: variance %g, at most %g", seed, distances[n], m.variance(), limit)
						}
					}
					t.Logf("within %.2f standard errors", worst)
				})
			}
		}
	}
}

// togetherOrthogonal is E cos(v·x)cos(v'·x), |x| = r, of two frequencies v ⟂ v'
// of one block for the Gaussian kernel of σ = 1: their lengths are independent
// χ_d, their directions two rows of a random rotation, so that term by term
//
//	Σ_ij (−1)^{i+j} (r²/2)^{i+j}/(i! j!) Γ(d/2+i)Γ(d/2+j)/(Γ(d/2)Γ(d/2+i+j))
func togetherOrthogonal(d int, r float64) float64 {
	logGamma := func(v float64) float64 {
		l, _ := math.Lgamma(v)
		return l
	}
	half, total := float64(d)/2, 0.0
	for i := range 40 {
		for j := range 40 {
			n := float64(i + j)
			term := math.Exp(n*math.Log(r*r/2) - logGamma(float64(i+1)) - logGamma(float64(j+1)) +
				logGamma(half+float64(i)) + logGamma(half+float64(j)) - logGamma(half) - logGamma(half+n))
			if (i+j)%2 == 1 {
				term = -term
			}
			total += term
		}
	}
	return total
}

// §2.2, "Variance-reduced RF", the claim of Yu et al. (NIPS 2016): for the
// Gaussian kernel Var κ̂_ORF ≤ Var κ̂. With r the distance over σ and D = d, both
// have closed forms:
//
//	Var κ̂     = (1−e^{−r²})²/2D
//	Var κ̂_ORF = Var κ̂ + (D−1)/D (E cos(v·x)cos(v'·x) − e^{−r²})
//
// and the last bracket, of orthogonal v and v', is negative.
func TestOrthogonalFeaturesVaryLess_JMLR_Section22(t *testing.T) {
	const sigma = 0.8
	distances := []float64{0.25, 0.5, 1, 1.5, 2}
	dimensions := []int{4, 8, 16, 32}
	draws := 6000
	if testing.Short() || modeltest.RaceDetector {
		dimensions, draws = dimensions[:2], 2000
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: sigma}
	apart := make([]float64, len(distances))
	for n, r := range distances {
		apart[n] = r * sigma
	}
	for _, d := range dimensions {
		t.Run(fmt.Sprint("d=", d), func(t *testing.T) {
			seed := uint64(100 + d)
			count := draws * 4 / max(4, d/2) // More frequencies say more a draw.
			plain := estimates(k, d, d, count, false, apart, seed)
			orthogonal := estimates(k, d, d, count, true, apart, seed+1)
			for n, r := range distances {
				decay := math.Exp(-r * r)
				closed := (1 - decay) * (1 - decay) / (2 * float64(d))
				less := float64(d-1) / float64(d) * (togetherOrthogonal(d, r) - decay)
				p, o := plain[n], orthogonal[n]
				ratio, sd := o.variance()/closed, o.varianceError()/closed
				t.Logf("r = %g: orthogonal over plain %.3f ± %.3f, in closed form %.3f", r, ratio, sd, 1+less/closed)
				if off := math.Abs(p.variance()-closed) / p.varianceError(); off > 4 {
					t.Errorf("seed %d, r = %g: plain variance %g ± %g, closed form %g", seed, r, p.variance(), p.varianceError(), closed)
				}
				if off := math.Abs(o.variance()-closed-less) / o.varianceError(); off > 4 {
					t.Errorf("seed %d, r = %g: orthogonal variance %g ± %g, closed form %g", seed, r, o.variance(), o.varianceError(), closed+less)
				}
				assert.False(t, ratio+4*sd >= 1 || less >= 0, "seed %d, r = %g: orthogonal variance is %.3f ± %.3f of the plain one, in closed form %g less", seed, r, ratio, sd, -less)
			}
		})
	}
}

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
