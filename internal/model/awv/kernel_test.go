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

func gaussian(sigma float64) kernel.Kernel { return kernel.Kernel{Kind: kernel.Gaussian, Sigma: sigma} }

func nystrom(set func(*awv.NystromOptions)) *awv.Nystrom {
	o := awv.NystromOptions{
		Options:    awv.Options{Lambda: 1},
		Dictionary: feature.SampledOptions{Kernel: gaussian(1), Dimension: 2, Mu: 0.1, Epsilon: 0.5, Beta: 1, Capacity: 512, Seed: 1},
	}
	set(&o)
	return awv.NewNystrom(o)
}

func tooLarge(magnitude float64) bool { return magnitude > model.MaxMagnitude }

func TestKernelLearnersConform(t *testing.T) {
	given := [][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}}
	for name, s := range map[string]modeltest.Subject{
		"kernel": {
			Dimension: 2, Rejects: tooLarge, Grows: true,
			New: func() model.Learner {
				return awv.NewKernel(awv.KernelOptions{Kernel: gaussian(0.8), Dimension: 2, Lambda: 0.5, Capacity: 4000})
			},
		},
		"kernel, polynomial": {
			Dimension: 2, Rejects: func(v float64) bool { return v > 500 }, Grows: true,
			New: func() model.Learner {
				return awv.NewKernel(awv.KernelOptions{Kernel: kernel.Kernel{Kind: kernel.Polynomial, Degree: 2, Offset: 1}, Dimension: 2, Lambda: 1, Capacity: 4000})
			},
		},
		"nystrom, no history": {
			Dimension: 2, Rejects: tooLarge,
			New: func() model.Learner { return nystrom(func(o *awv.NystromOptions) { o.Dictionary.Capacity = 12 }) },
		},
		"nystrom, window": {
			Dimension: 2, Rejects: tooLarge,
			New: func() model.Learner {
				return nystrom(func(o *awv.NystromOptions) { o.Dictionary.Capacity, o.Window = 12, 16 })
			},
		},
		"nystrom, whole history": {
			Dimension: 2, Rejects: tooLarge, Grows: true,
			New: func() model.Learner { return nystrom(func(o *awv.NystromOptions) { o.Window = awv.WholeHistory }) },
		},
		"nystrom, given": {
			Dimension: 2, Rejects: tooLarge,
			New: func() model.Learner { return nystrom(func(o *awv.NystromOptions) { o.Dictionary.Given = given }) },
		},
		"fourier": {
			Dimension: 3, Rejects: tooLarge,
			New: func() model.Learner {
				rng := rand.New(rand.NewPCG(1, 1))
				return awv.New(feature.NewFourier(gaussian(1), 3, 10, true, rng), awv.Options{Lambda: 1})
			},
		},
	} {
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

// The growing factor agrees with systems solved anew.
func TestKernelAgreesWithDenseOracle(t *testing.T) {
	l := awv.NewKernel(awv.KernelOptions{Kernel: gaussian(0.7), Dimension: 2, Lambda: 0.3, Capacity: 100})
	o := &modeltest.KernelAWV{Kernel: modeltest.Gaussian(0.7), Lambda: 0.3}
	loss, energy := 0.0, 0.0
	for n, s := range modeltest.Samples(3, 2, 80) {
		p := must(modeltest.Predict(l, s.X))(t)
		out := must(modeltest.Observe(l, s.X, s.Y, 1))(t)
		want := o.Observe(s.X, s.Y)
		near(t, fmt.Sprint("prediction ", n), p.Value, want, 1, 1e-11)
		near(t, "prequential prediction", out.Prediction, want, 1, 1e-11)
		loss += (s.Y - want) * (s.Y - want)
		energy += s.Y * s.Y
	}
	f := o.Figures()
	got := l.Stats()
	near(t, "loss", got.Loss, loss, energy, 1e-11)
	near(t, "hindsight loss", got.HindsightLoss, f.Hindsight, energy, 1e-11)
	near(t, "regret", got.Regret, loss-f.Hindsight, energy, 1e-11)
	near(t, "unpenalized regret", l.Report(model.ReportOptions{}).RegretUnpenalized, loss-f.Fit, energy, 1e-10)
	near(t, "log determinant", got.LogDeterminant, f.LogDet, 1, 1e-11)
	near(t, "effective dimension", l.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension, f.Effective, 1, 1e-11)
}

// With the whole history, growing is exact: every prediction is that of
// eq. (4), solved densely over the dictionary as it stands.
func TestNystromIsExactWithWholeHistory_NeurIPS_Eq4(t *testing.T) {
	for _, k := range []kernel.Kernel{
		gaussian(0.9),
		{Kind: kernel.Laplacian, Sigma: 1},
		{Kind: kernel.Matern32, Sigma: 1},
		{Kind: kernel.Cauchy, Sigma: 1},
		{Kind: kernel.RationalQuadratic, Sigma: 1, Alpha: 1},
		{Kind: kernel.Polynomial, Degree: 2, Offset: 1},
		{Kind: kernel.Linear},
	} {
		t.Run(string(k.Kind), func(t *testing.T) {
			l := nystrom(func(o *awv.NystromOptions) { o.Dictionary.Kernel, o.Window, o.Lambda = k, awv.WholeHistory, 0.4 })
			o := &modeltest.Nystrom{Kernel: k.At, Lambda: 0.4}
			for n, s := range modeltest.Samples(5, 2, 120) {
				before := l.Stats().Dictionary
				out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				stats := l.Stats()
				if stats.Dictionary > before {
					o.Grow(s.X)
				}
				want := o.Observe(s.X, s.Y, s.Weight)
				near(t, fmt.Sprint("prediction ", n), out.Prediction, want, 1, 1e-8)
				near(t, "hindsight loss", stats.HindsightLoss, o.Hindsight(), o.Energy(), 1e-8)
				near(t, "regret", stats.Regret, stats.Loss-o.Hindsight(), o.Energy(), 1e-8)
			}
			m := l.Stats().Dictionary
			assert.True(t, m >= 2 && m <= 119, "%d centres", m)
		})
	}
}

// A dictionary given beforehand is a fixed space: the theorem holds.
// Corollary 8.
func TestGivenDictionaryIsCertified_NeurIPS_Cor8(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var given [][]float64
	for range 20 {
		given = append(given, []float64{rng.NormFloat64(), rng.NormFloat64()})
	}
	l := nystrom(func(o *awv.NystromOptions) { o.Dictionary.Given = given })
	for n := range 300 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		p := must(modeltest.Predict(l, x))(t)
		y := 1.0
		if p.Value > 0 {
			y = -1
		}
		must(modeltest.Observe(l, x, y, 1))(t)
		s := l.Stats()
		require.True(t, s.Certified && s.CertificateOK && s.Regret <= s.Certificate && s.Dictionary == 20, "round %d: %+v", n, s)
	}
}

// On the first 1,200 rows of real streams the default dictionary, μ = 0.1, loses
// at most 0.2 % more than exact Kernel-AWV with the whole history and at most
// 0.5 % more with none. It may lose less: a smaller space regularises.
func TestNystromOnRealStreams(t *testing.T) {
	const n = 1200
	for _, name := range []string{"air.csv.gz", "casp.csv.gz"} {
		t.Run(name, func(t *testing.T) {
			samples := modeltest.Stream(t, name, n)
			modeltest.Scale(samples)
			d := len(samples[0].X)
			exact := awv.NewKernel(awv.KernelOptions{Kernel: gaussian(1), Dimension: d, Lambda: 1, Capacity: n})
			learners := map[int]*awv.Nystrom{}
			for _, window := range []int{0, awv.WholeHistory} {
				learners[window] = nystrom(func(o *awv.NystromOptions) { o.Dictionary.Dimension, o.Window = d, window })
			}
			for _, s := range samples {
				must(modeltest.Observe(exact, s.X, s.Y, 1))(t)
				for _, l := range learners {
					must(modeltest.Observe(l, s.X, s.Y, 1))(t)
				}
			}
			want := exact.Stats().Loss
			for window, within := range map[int]float64{0: 5e-3, awv.WholeHistory: 2e-3} {
				s := learners[window].Stats()
				t.Logf("window %d: %d centres, loss ratio %.5f", window, s.Dictionary, s.Loss/want)
				assert.LessOrEqual(t, s.Loss, want*(1+within), "window %d: loss %g, exact %g", window, s.Loss, want)
			}
		})
	}
}

// Nyström converges to exact Kernel-AWV as μ → 0, with either history; at the
// default of μ = 0.1 its loss is within half a percent.
func TestNystromConvergesToKernelAWV(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 600
	exact := awv.NewKernel(awv.KernelOptions{Kernel: gaussian(0.7), Dimension: 2, Lambda: 0.5, Capacity: n})
	type run struct {
		mu     float64
		window int
		within float64
	}
	learners := map[run]*awv.Nystrom{}
	for _, r := range []run{
		{0.1, 0, 0.02}, {0.1, awv.WholeHistory, 5e-3}, {0.01, 0, 5e-3}, {0.01, awv.WholeHistory, 1e-3}, {1e-4, awv.WholeHistory, 1e-5},
	} {
		learners[r] = nystrom(func(o *awv.NystromOptions) {
			o.Dictionary.Kernel, o.Lambda, o.Dictionary.Mu, o.Window = gaussian(0.7), 0.5, r.mu, r.window
		})
	}
	for range n {
		x := []float64{2*rng.Float64() - 1, 2*rng.Float64() - 1}
		y := math.Sin(3*x[0])*x[1] + 0.1*rng.NormFloat64()
		must(modeltest.Observe(exact, x, y, 1))(t)
		for _, l := range learners {
			must(modeltest.Observe(l, x, y, 1))(t)
		}
	}
	want := exact.Stats().Loss
	for r, l := range learners {
		s := l.Stats()
		t.Logf("μ = %g, window %d: %d centres, loss ratio %.5f", r.mu, r.window, s.Dictionary, s.Loss/want)
		assert.InDelta(t, 1, s.Loss/want, r.within, "μ = %g, window %d: loss %g, exact %g", r.mu, r.window, s.Loss, want)
	}
}

// Leverage and standard error of what approximates a kernel are those of exact
// Kernel-AWV everywhere: between the inputs that were learned, beside them, and far
// from all, where the features are 0.
func TestLeverageIsThatOfTheKernel(t *testing.T) {
	const lambda, n = 0.3, 300
	far := []float64{0, 0.3, 0.9, 1.2, 1.7, 3, 6, 50, 1e6}
	for name, c := range map[string]struct {
		kernel  kernel.Kernel
		learner model.Learner
	}{
		"taylor": {gaussian(0.8), awv.New(feature.NewTaylor(1, 0.8, 16), awv.Options{Lambda: lambda})},
		"nystrom": {gaussian(0.8), nystrom(func(o *awv.NystromOptions) {
			o.Dictionary.Kernel, o.Dictionary.Dimension, o.Lambda, o.Dictionary.Mu, o.Window = gaussian(0.8), 1, lambda, 1e-6, awv.WholeHistory
		})},
		"nystrom, quadratic": {kernel.Kernel{Kind: kernel.Polynomial, Degree: 2, Offset: 1}, nystrom(func(o *awv.NystromOptions) {
			o.Dictionary.Kernel = kernel.Kernel{Kind: kernel.Polynomial, Degree: 2, Offset: 1}
			o.Dictionary.Dimension, o.Lambda, o.Dictionary.Mu, o.Window = 1, lambda, 1e-6, awv.WholeHistory
		})},
	} {
		t.Run(name, func(t *testing.T) {
			exact := awv.NewKernel(awv.KernelOptions{Kernel: c.kernel, Dimension: 1, Lambda: lambda, Capacity: n})
			rng := rand.New(rand.NewPCG(8, 8))
			for round := range n {
				for _, v := range far {
					if c.kernel.Kind == kernel.Polynomial && v > 100 {
						continue // Beyond the limit of inputs.
					}
					want := must(modeltest.Predict(exact, []float64{v}))(t)
					got := must(modeltest.Predict(c.learner, []float64{v}))(t)
					what := fmt.Sprintf("round %d at %g", round, v)
					near(t, "leverage, "+what, got.Leverage, want.Leverage, 1, 1e-4)
					near(t, "standard error, "+what, got.StandardError, want.StandardError, want.StandardError, 1e-2)
				}
				x := []float64{2*rng.Float64() - 1}
				y := math.Sin(3*x[0]) + 0.1*rng.NormFloat64()
				for _, l := range []model.Learner{exact, c.learner} {
					must(modeltest.Observe(l, x, y, 1))(t)
				}
			}
		})
	}
}
