package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

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
			o.Dictionary.Kernel, o.Lambda = k, 0.3
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
		ofCentres("given", matern, true, func(o *awv.NystromOptions) { o.Dictionary.Given = grid }),
		ofCentres("whole history", matern, true, func(o *awv.NystromOptions) { o.Window, o.Dictionary.Capacity = awv.WholeHistory, 15 }),
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
		l := nystrom(func(o *awv.NystromOptions) { o.Dictionary.Kernel, o.Window, o.Lambda = k, awv.WholeHistory, lambda })
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

// stages is a learner of two stages with so many frequencies.
func stages(o awv.StagesOptions, frequencies int) *awv.Stages {
	return awv.NewStages(waves(len(o.KernelInputs())+o.Outputs, frequencies), o)
}

// ownStages has parameters of each output, sharedStages one vector of two for both.
func ownStages() awv.StagesOptions {
	return awv.StagesOptions{Dimension: 3, Parametric: []int{0, 2}, ParametricLambda: 0.3, Lambda: 1.5, Outputs: 2}
}

func sharedStages() awv.StagesOptions {
	return awv.StagesOptions{Dimension: 5, Parametric: []int{0, 1, 3, 4}, Shared: true, ParametricLambda: 0.3, Lambda: 1.5, Outputs: 2}
}

func TestStagesConform(t *testing.T) {
	for name, o := range map[string]awv.StagesOptions{
		"own": ownStages(), "shared": sharedStages(),
		"all of one input": {Dimension: 1, Parametric: []int{0}, ParametricLambda: 1, Lambda: 1, Outputs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Conform(t, modeltest.Subject{
				Dimension: o.Dimension, Outputs: o.Outputs, Rejects: tooLarge,
				New: func() model.Learner { return stages(o, 4) },
			})
		})
	}
}

// regressors is Φ(x) with a row an output, as dense matrices have it: of own parameters block
// diagonal.
func regressors(o awv.StagesOptions, x []float64) *mat.Dense {
	if o.Shared {
		var flat []float64
		for _, i := range o.Parametric {
			flat = append(flat, x[i])
		}
		return mat.NewDense(o.Outputs, len(flat)/o.Outputs, flat)
	}
	width := len(o.Parametric) + 1
	phi := mat.NewDense(o.Outputs, o.Outputs*width, nil)
	for j := range o.Outputs {
		for k, i := range o.Parametric {
			phi.Set(j, j*width+k, x[i])
		}
		phi.Set(j, j*width+width-1, 1)
	}
	return phi
}

// Each round is equal to the two stages of the text, solved anew: π̂ of (8.4) from all rows of Φ of
// (8.3), and a forecaster of the residuals Δy = y − ŷ over features of (x, ŷ/2√d).
// Camoriano, thesis, §8.2.1 and §8.3.
func TestTheStagesAreThoseOfThesis83(t *testing.T) {
	for name, o := range map[string]awv.StagesOptions{"own": ownStages(), "shared": sharedStages()} {
		t.Run(name, func(t *testing.T) {
			l, rest := stages(o, 7), waves(len(o.KernelInputs())+o.Outputs, 7)
			second := make([]*modeltest.AWV, o.Outputs)
			for j := range second {
				second[j] = &modeltest.AWV{Phi: mapped(rest), Features: rest.Size(), Lambda: o.Lambda}
			}
			_, parameters := regressors(o, make([]float64, o.Dimension)).Dims()
			gram, right := mat.NewDense(parameters, parameters, nil), mat.NewVecDense(parameters, nil)
			for k := range parameters {
				gram.Set(k, k, o.ParametricLambda)
			}
			var p model.Prediction
			var out model.Outcome
			pi, total := mat.NewVecDense(parameters, nil), 0.0
			for round, s := range modeltest.Samples(27, o.Dimension, 120) {
				s.Weight = math.Min(s.Weight, 1.9) // Heavier ones have another bound.
				phi := regressors(o, s.X)
				require.NoError(t, pi.SolveVec(gram, right))
				var said mat.VecDense
				said.MulVec(phi, pi)
				var inputs []float64
				for _, i := range o.KernelInputs() {
					inputs = append(inputs, s.X[i])
				}
				for j := range o.Outputs {
					inputs = append(inputs, said.AtVec(j)/(2*math.Sqrt(float64(o.Dimension))))
				}
				y := []float64{s.Y + s.X[0], math.Sin(3*s.X[1]) - 2*s.X[2]}
				require.NoError(t, l.Predict(&p, s.X))
				require.NoError(t, l.Observe(&out, s.X, y, s.Weight))
				for j, oracle := range second {
					left, missed := oracle.Observe(inputs, y[j]-said.AtVec(j), s.Weight)
					total += missed
					near(t, fmt.Sprint("round ", round, ", ŷ"), p.Parametric[j], said.AtVec(j), 1, 1e-10)
					near(t, fmt.Sprint("round ", round, ", ỹ"), p.Values[j], said.AtVec(j)+left, 1, 1e-10)
					near(t, fmt.Sprint("round ", round, ", ỹ learned"), out.Predictions[j], said.AtVec(j)+left, 1, 1e-10)
				}
				var outer mat.Dense
				outer.Mul(phi.T(), phi)
				outer.Scale(s.Weight, &outer)
				gram.Add(gram, &outer)
				var b mat.VecDense
				b.MulVec(phi.T(), mat.NewVecDense(o.Outputs, y))
				right.AddScaledVec(right, s.Weight, &b)
			}
			stats := l.Stats()
			var hindsight, certificate float64
			for _, oracle := range second {
				f := oracle.Figures()
				hindsight += f.Hindsight
				certificate += f.Certificate
			}
			near(t, "loss", stats.Loss, total, total, 1e-10)
			near(t, "hindsight loss", stats.HindsightLoss, hindsight, hindsight, 1e-9)
			near(t, "certificate", stats.Certificate, certificate, certificate, 1e-9)
			assert.True(t, stats.Certified && stats.CertificateOK && stats.Regret <= stats.Certificate, "%+v", stats)
			require.NoError(t, pi.SolveVec(gram, right))
			for k, w := range l.Report(model.ReportOptions{}).Weights {
				near(t, fmt.Sprint("weight ", k), w.Value, pi.AtVec(k%parameters), 1, 1e-10)
			}
		})
	}
}

// arm are the torques of a planar arm of two links, whose motion goes from one circle to another:
// the regressors Φ(q, q̇, q̈) of the rigid body, linear in the base parameters, and friction,
// which is not. The inputs are Φ, row by row, and then q, q̇ and q̈.
func arm(n int, friction float64) (xs, ys [][]float64) {
	const step, g = 0.1, 9.81
	rng := rand.New(rand.NewPCG(8, 8))
	for t := range n {
		time, wide := step*float64(t), 0.4
		if t >= n/2 { // Another part of the space.
			wide = 0.9
		}
		q := []float64{0.5 + wide*math.Sin(1.1*time), -0.8 + wide*math.Cos(1.7*time)}
		v := []float64{1.1 * wide * math.Cos(1.1*time), -1.7 * wide * math.Sin(1.7*time)}
		a := []float64{-1.21 * wide * math.Sin(1.1*time), -2.89 * wide * math.Cos(1.7*time)}
		s, c := math.Sin(q[1]), math.Cos(q[1])
		// The parameters: the inertia of both links, that of the second and its coupling to the
		// first, and two first moments of mass.
		phi := []float64{
			a[0], a[1], c*(2*a[0]+a[1]) - s*(v[1]*v[1]+2*v[0]*v[1]), g * math.Cos(q[0]), g * math.Cos(q[0]+q[1]),
			0, a[0] + a[1], c*a[0] + s*v[0]*v[0], 0, g * math.Cos(q[0]+q[1]),
		}
		y := []float64{rng.NormFloat64() * 0.02, rng.NormFloat64() * 0.02}
		for k, p := range []float64{0.6, 0.2, 0.15, 0.5, 0.25} {
			y[0] += p * phi[k]
			y[1] += p * phi[5+k]
		}
		for j := range y {
			y[j] += friction * (math.Tanh(8*v[j]) + 0.5*math.Sin(3*q[j]))
		}
		xs, ys = append(xs, append(append(append(phi, q...), v...), a...)), append(ys, y)
	}
	return xs, ys
}

// Two stages with the shared regressors of a rigid arm learn it sooner than features of the kernel,
// and follow what is not rigid. Camoriano, thesis, Figure 8.4.
func TestStagesOfAnArm_Thesis_Figure84(t *testing.T) {
	phi, state := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{10, 11, 12, 13, 14, 15}
	for _, friction := range []float64{0, 1} {
		xs, ys := arm(2000, friction)
		o := awv.StagesOptions{Dimension: 16, Parametric: phi, Shared: true, ParametricLambda: 0.1, Lambda: 0.1, Outputs: 2}
		rng := func() *rand.Rand { return rand.New(rand.NewPCG(3, 9)) }
		l := awv.NewStages(feature.NewFourier(gaussian(2), 8, 100, true, rng()), o)
		kernel := awv.New(feature.NewFourier(gaussian(2), 6, 100, true, rng()), awv.Options{Lambda: 0.1, Outputs: 2})
		var losses [4][3]float64 // Of quarters: two stages, the parametric part, the kernel.
		var p model.Prediction
		var out model.Outcome
		for n, x := range xs {
			quarter := &losses[4*n/len(xs)]
			require.NoError(t, l.Predict(&p, x))
			for j, said := range p.Parametric {
				quarter[1] += (ys[n][j] - said) * (ys[n][j] - said)
			}
			require.NoError(t, l.Observe(&out, x, ys[n], 1))
			quarter[0] += out.Loss
			inputs := make([]float64, len(state))
			for k, i := range state {
				inputs[k] = x[i]
			}
			require.NoError(t, kernel.Observe(&out, inputs, ys[n], 1))
			quarter[2] += out.Loss
		}
		t.Logf("friction %g: two stages, parametric, kernel: %.3g", friction, losses)
		assert.False(t, losses[0][0] > losses[0][2] || losses[2][0] > losses[2][2] || friction > 0 && losses[3][0] > losses[3][1]/4, "friction %g: %v", friction, losses)
	}
}
