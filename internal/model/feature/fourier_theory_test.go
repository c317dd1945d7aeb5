package feature_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

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
						if off > 4 {
							t.Errorf("seed %d, distance %g: the mean is %.3g off, standard error %.3g", seed, distances[n], m.mean(), m.meanError())
						}
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
