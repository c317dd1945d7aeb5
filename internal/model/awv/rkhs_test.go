package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// whole is a learner with features of a kernel, and how the features arise.
type whole struct {
	name   string
	lambda float64
	kernel kernel.Kernel
	model.Learner
	// features are the kernel of the features, nil if each round has features of its own.
	features func(t *testing.T, l model.Learner) func(a, b []float64) float64
}

func wholes() []whole {
	taylor := func(sigma, lambda float64, degree int) whole {
		return whole{
			fmt.Sprintf("pkawv_taylor of degree %d", degree), lambda, gaussian(sigma),
			awv.New(feature.NewTaylor(2, sigma, degree), awv.Options{Lambda: lambda}),
			func(*testing.T, model.Learner) func(a, b []float64) float64 {
				return ofFeatures(modeltest.TaylorFeatures(2, sigma, degree))
			},
		}
	}
	ofCentres := func(name string, k kernel.Kernel, fixed bool, set func(o *awv.NystromOptions)) whole {
		w := whole{name: name, lambda: 0.3, kernel: k, Learner: nystrom(func(o *awv.NystromOptions) {
			o.Kernel, o.Lambda = k, 0.3
			set(o)
		})}
		if fixed {
			w.features = func(t *testing.T, l model.Learner) func(a, b []float64) float64 {
				t.Helper()
				return projected(t, k, l.(*awv.Nystrom).Centres())
			}
		}
		return w
	}
	var grid [][]float64
	for i := range 12 {
		grid = append(grid, []float64{float64(i%4)/2 - 0.75, float64(i/4) - 1})
	}
	matern := kernel.Kernel{Kind: kernel.Matern52, Sigma: 1}
	return []whole{
		taylor(2, 0.5, 1), taylor(2, 0.5, 3), taylor(2, 0.05, 8), taylor(0.7, 2, 4),
		ofCentres("given", matern, true, func(o *awv.NystromOptions) { o.Given = grid }),
		ofCentres("whole history", matern, true, func(o *awv.NystromOptions) { o.Window, o.MaxDictionary = awv.WholeHistory, 15 }),
		ofCentres("window", gaussian(1), false, func(o *awv.NystromOptions) { o.Window = 7 }),
		ofCentres("no history", matern, false, func(*awv.NystromOptions) {}),
		{"kernel_awv", 0.3, matern, awv.NewKernel(awv.KernelOptions{Kernel: matern, Dimension: 2, Lambda: 0.3, Capacity: 1000}), nil},
	}
}

// With the ridge λ + r, r ≥ ‖K − K̃‖, the best function of the features bounds the best of
// the kernel's space from below, which Theorem 3.1 of the paper rests on:
//
//	λ/(λ+r) L*_{λ+r} ≤ λyᵀ(K+λI)⁻¹y
//
// Both sides are solved from eigenvalues of Gram matrices, with r = Σω(k(x,x) − k̃(x,x)).
func TestRegretAgainstTheKernelsSpace_HAL_Thm31(t *testing.T) {
	for name, against := range adversaries() {
		for _, c := range wholes() {
			what := c.name + ", " + name
			rng := rand.New(rand.NewPCG(9, 12))
			var points [][]float64
			var labels, weights []float64
			loss, energy := 0.0, 0.0
			for n := range 90 {
				x := inputs(rng, n)
				p := must(modeltest.Predict(c.Learner, x))(t)
				w, y := []float64{1, 0.2, 1.5}[n%3], against(rng, n, x, p.Value)
				out := must(modeltest.Observe(c.Learner, x, y, w))(t)
				loss, energy = loss+out.Loss, energy+w*y*y
				points, labels, weights = append(points, x), append(labels, math.Sqrt(w)*y), append(weights, w)
			}
			weighted := func(k func(a, b []float64) float64) spectrum { return weightedSpectrum(t, k, points, weights) }
			least := weighted(c.kernel.At).hindsight(labels, c.lambda)
			r := c.Report(model.ReportOptions{RegretRKHS: true})
			if slack := 1e-9 * energy; r.RegretRKHS < loss-least-slack || r.RegretRKHS < r.Regret-slack || r.RegretRKHS > loss+slack {
				t.Errorf("%s: at most %g, it is %g, of the features %g, loss %g", what, r.RegretRKHS, loss-least, r.Regret, loss)
			}
			switch {
			case c.name == "kernel_awv":
				near(t, what, r.RegretRKHS, loss-least, energy, 1e-9)
			case c.features == nil:
				assert.False(t, r.RegretRKHS > loss-1e-6*energy && name == "signs", "%s: at most %g of a loss of %g says nothing", what, r.RegretRKHS, loss)
			default:
				of, tail := c.features(t, c.Learner), 0.0
				for n, x := range points {
					tail += weights[n] * (c.kernel.At(x, x) - of(x, x))
				}
				bound := c.lambda / (c.lambda + tail) * weighted(of).hindsight(labels, c.lambda+tail)
				near(t, what, r.RegretRKHS, loss-bound, energy, 1e-9)
			}
			r = c.Report(model.ReportOptions{})
			assert.True(t, math.IsNaN(r.RegretRKHS), "%s: %g, not asked for", what, r.RegretRKHS)
		}
	}
}

// weightedSpectrum is that of W^½KW^½.
func weightedSpectrum(t *testing.T, k func(a, b []float64) float64, points [][]float64, weights []float64) spectrum {
	t.Helper()
	numbered := make([][]float64, len(points))
	for n := range points {
		numbered[n] = []float64{float64(n)}
	}
	return spectrumOf(t, func(a, b []float64) float64 {
		i, j := int(a[0]), int(b[0])
		return math.Sqrt(weights[i]*weights[j]) * k(points[i], points[j])
	}, numbered)
}

// A learner that forgets, and features that are no approximation, have no such regret.
func TestNoRegretAgainstAKernelsSpace(t *testing.T) {
	for _, l := range []model.Learner{
		awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 1, Forgetting: 0.9}), awv.New(feature.NewAffine(2), awv.Options{Lambda: 1}),
	} {
		learnOne(t, l, modeltest.Samples(1, 2, 20))
		r := l.Report(model.ReportOptions{RegretRKHS: true}).RegretRKHS
		assert.True(t, math.IsNaN(r), "%T: %g", l, r)
	}
}

// With the whole history the paper's algorithm (4) is certified: a new centre raises the
// regret by exactly what it lowers L*, u², and
//
//	regret ≤ Σ y²h + Σ u² ≤ B² log det(A/λ) + Σ u²
//
// L* before and after the centre is solved densely from Gram matrices.
func TestAGrowingHistoryIsCertified_NeurIPS_Eq4(t *testing.T) {
	const lambda = 0.4
	tightest := 0.0
	for name, against := range adversaries() {
		k := kernel.Kernel{Kind: kernel.Matern32, Sigma: 1}
		l := nystrom(func(o *awv.NystromOptions) { o.Kernel, o.Window, o.Lambda = k, awv.WholeHistory, lambda })
		o := &modeltest.Nystrom{Kernel: k.At, Lambda: lambda}
		rng := rand.New(rand.NewPCG(4, 41))
		certificate, grown := 0.0, 0.0
		for n := range 80 {
			x := inputs(rng, n)
			p := must(modeltest.Predict(l, x))(t)
			y, before := against(rng, n, x, p.Value), l.Stats().Dictionary
			must(modeltest.Observe(l, x, y, 1))(t)
			s := l.Stats()
			switch {
			case n == 0:
				o.Grow(x)
			case s.Dictionary > before:
				growth := o.Hindsight()
				o.Grow(x)
				growth -= o.Hindsight()
				grown, certificate = grown+growth, certificate+growth
			}
			certificate += y * y * (1 - o.Alone(x))
			o.Observe(x, y, 1)
			what := fmt.Sprintf("%s, round %d", name, n)
			near(t, what+": certificate", s.Certificate, certificate, o.Energy(), 1e-9)
			if guarantee := s.LabelBound*s.LabelBound*s.LogDeterminant + grown; n > 5 {
				near(t, what+": guarantee", s.RegretBound, guarantee, guarantee, 1e-9)
			}
			require.False(t, !s.Certified || !s.CertificateOK || s.Regret > s.Certificate || s.Certificate > s.RegretBound*(1+1e-9), "%s: %+v", what, s)
			if n > 20 {
				tightest = math.Max(tightest, s.Regret/s.Certificate)
			}
		}
		assert.True(t, grown != 0, "%s: no growth", name)
	}
	assert.GreaterOrEqual(t, tightest, 0.3, "regret is at most %g of the certificate", tightest)
}
