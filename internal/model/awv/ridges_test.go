package awv_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

func TestRidgesConform(t *testing.T) {
	for name, s := range map[string]modeltest.Subject{
		"taylor": {
			Dimension: 2,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, []float64{0.01, 1, 10})
			},
		},
		"taylor, three outputs": {
			Dimension: 2, Outputs: 3,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 2), awv.Options{Outputs: 3}, []float64{0.5, 0.5, 7})
			},
		},
		"one ridge": {
			Dimension: 2,
			New: func() model.Learner {
				return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{Forgetting: 0.9, Outputs: 2}, []float64{0.3})
			},
			Outputs: 2,
		},
		"nystrom": {
			Dimension: 2, Rejects: tooLarge,
			New: func() model.Learner {
				return nystrom(func(o *awv.NystromOptions) {
					o.Lambdas, o.Dictionary.Capacity, o.Window = []float64{0.1, 1, 10}, 12, 16
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

// One ridge alone is the plain learner, bit for bit, and so is each of several.
func TestEveryRidgeIsThePlainLearner(t *testing.T) {
	lambdas := []float64{1e-3, 0.7, 40}
	for name, create := range map[string]func(lambda float64, lambdas []float64) model.Learner{
		"taylor": func(lambda float64, lambdas []float64) model.Learner {
			o := awv.Options{Lambda: lambda, Outputs: 2}
			if lambdas == nil {
				return awv.New(feature.NewTaylor(2, 1, 3), o)
			}
			return awv.NewRidges(feature.NewTaylor(2, 1, 3), o, lambdas)
		},
		"nystrom": func(lambda float64, lambdas []float64) model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Lambda, o.Lambdas, o.Outputs, o.Window, o.Dictionary.Capacity = lambda, lambdas, 2, 9, 20
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			several := create(0, lambdas)
			samples := modeltest.Samples(21, 2, 150)
			learnAll(t, several, samples)
			var states [][]byte
			for _, lambda := range lambdas {
				plain, one := create(lambda, nil), create(0, []float64{lambda})
				for n, s := range samples {
					var p, q model.Prediction
					require.NoError(t, plain.Predict(&p, s.X))
					require.NoError(t, one.Predict(&q, s.X))
					require.Equal(t, fmt.Sprint(q), fmt.Sprint(p), "round %d: %v, the plain learner %v", n, q, p)
					learnAll(t, plain, samples[n:n+1])
					learnAll(t, one, samples[n:n+1])
				}
				want := modeltest.State(t, plain.Visit)
				if !bytes.Equal(modeltest.State(t, one.Visit), want) || fmt.Sprint(one.Stats()) != fmt.Sprint(plain.Stats()) {
					t.Errorf("λ = %g: one ridge alone is another learner: %+v, want %+v", lambda, one.Stats(), plain.Stats())
				}
				if name == "taylor" {
					states = append(states, want)
				}
			}
			all := bytes.Join(states, nil)
			assert.True(t, bytes.HasPrefix(modeltest.State(t, several.Visit), all), "a ridge of several is not the plain learner")
		})
	}
}

// learnAll learns samples with two labels.
func learnAll(t *testing.T, l model.Learner, samples []modeltest.Sample) {
	t.Helper()
	for _, s := range samples {
		require.NoError(t, l.Observe(&model.Outcome{}, s.X, []float64{s.Y, s.Y * s.X[0]}, s.Weight))
	}
}

// Equal ridges weigh the same, and their mixture is what each of them says.
func TestEqualRidgesWeighTheSame(t *testing.T) {
	l := awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, []float64{0.3, 0.3, 0.3})
	plain := awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.3})
	for n, s := range modeltest.Samples(8, 2, 200) {
		got := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		want := must(modeltest.Observe(plain, s.X, s.Y, s.Weight))(t)
		require.True(t, got.Prediction == want.Prediction, "round %d: %.17g, each says %.17g", n, got.Prediction, want.Prediction)
		for _, e := range l.Report(model.ReportOptions{}).Experts {
			require.True(t, e.Name == "lambda_0.3" && math.Abs(e.Weight-1.0/3) <= 1e-15, "round %d: %+v", n, e)
		}
	}
}

// For every sequence and every weight the regret is within the certificate, and the loss within
// that of each ridge and the certificate of the mixture.
func TestRegretAgainstEveryRidge_COLT_2014(t *testing.T) {
	lambdas := []float64{1e-4, 1e-2, 1, 30, 1000}
	for name, against := range adversaries() {
		for outputs := 1; outputs <= 2; outputs++ {
			t.Run(fmt.Sprint(name, " ", outputs), func(t *testing.T) {
				l := awv.NewRidges(feature.NewTaylor(2, 0.8, 4), awv.Options{Outputs: outputs}, lambdas)
				rng := rand.New(rand.NewPCG(31, uint64(outputs)))
				for n := range 300 {
					x := inputs(rng, n)
					var p model.Prediction
					require.NoError(t, l.Predict(&p, x))
					y, weight := make([]float64, outputs), []float64{1, 0.2, 4}[n%3]
					for j := range y {
						y[j] = against(rng, n, x, p.Values[j])
					}
					require.NoError(t, l.Observe(&model.Outcome{}, x, y, weight))
					s := l.Stats()
					slack := 1e-9 * (1 + s.Loss)
					require.False(t, !s.Certified || !s.CertificateOK || s.Regret > s.Certificate+slack || s.Certificate > s.RegretBound+slack, "round %d: %+v", n, s)
				}
			})
		}
	}
}

// The mixture sees no units: labels times a power of two give
// predictions times it, bit for bit.
func TestRidgesSeeNoUnits(t *testing.T) {
	learner := func() model.Learner {
		return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{}, []float64{0.01, 1, 10})
	}
	a, b := learner(), learner()
	for n, s := range modeltest.Samples(12, 2, 200) {
		p := must(modeltest.Observe(a, s.X, s.Y, s.Weight))(t)
		q := must(modeltest.Observe(b, s.X, math.Ldexp(s.Y, -100), s.Weight))(t)
		require.True(t, math.Ldexp(p.Prediction, -100) == q.Prediction && math.Ldexp(p.Loss, -200) == q.Loss, "round %d: %g and %g", n, p, q)
	}
}

// Constant labels, and labels so small that their square is 0, leave predictions
// finite.
func TestRidgesOfConstantLabels(t *testing.T) {
	for _, y := range []float64{0, 3, 1e100, 1e-200, 5e-324} {
		for _, change := range []bool{false, true} {
			l := awv.NewRidges(feature.NewAffine(1), awv.Options{}, []float64{0.1, 1, 10})
			for n := range 50 {
				label := y
				if change && n%2 == 1 {
					label = math.Nextafter(y, 1)
				}
				out := must(modeltest.Observe(l, []float64{1}, label, 1))(t)
				require.False(t, math.IsNaN(out.Prediction) || math.Abs(out.Prediction) > 2*math.Nextafter(y, math.Inf(1)), "label %g, round %d: %g", label, n, out.Prediction)
			}
			s := l.Stats()
			assert.True(t, s.CertificateOK, "label %g: %+v", y, s)
		}
	}
}

// The path over the number of centres is that of the thesis's incremental estimator:
// entry m is the loss of the learner over the first m centres.
//
// Source: Camoriano, thesis (2017), Algorithm 4.1.
func TestHindsightPathIsThatOfFewerCentres_Camoriano_Alg41(t *testing.T) {
	var centres [][]float64
	for i := range 9 {
		centres = append(centres, []float64{float64(i%3) - 1, float64(i/3) - 1})
	}
	samples := modeltest.Samples(14, 2, 120)
	create := func(m int, lambdas ...float64) model.Learner {
		l := nystrom(func(o *awv.NystromOptions) { o.Dictionary.Given, o.Lambdas, o.Outputs = centres[:m], lambdas, 2 })
		learnAll(t, l, samples)
		return l
	}
	assert.Nil(t, create(3, 1).Report(model.ReportOptions{}).HindsightPath)
	for _, lambdas := range [][]float64{{0.3}, {0.3, 0.3}} {
		path := create(len(centres), lambdas...).Report(model.ReportOptions{HindsightPath: true}).HindsightPath
		require.Equal(t, len(centres)+1, len(path))
		energy := 0.0
		for _, s := range samples {
			energy += s.Weight * (s.Y*s.Y + s.Y*s.X[0]*s.Y*s.X[0])
		}
		near(t, "no features", path[0], energy, 0, 1e-13)
		for m := 1; m <= len(centres); m++ {
			near(t, fmt.Sprint(m, " centres"), path[m], create(m, 0.3).Stats().HindsightLoss, 0, 1e-12)
		}
	}
}

// denseRidge is the forecaster of one ridge with its matrix kept whole.
type denseRidge struct {
	a    *mat.SymDense
	b    *mat.VecDense
	loss float64
}

func newDenseRidge(r int, lambda float64) *denseRidge {
	d := &denseRidge{a: mat.NewSymDense(r, nil), b: mat.NewVecDense(r, nil)}
	for i := range r {
		d.a.SetSym(i, i, lambda)
	}
	return d
}

// observe answers the forecaster's prediction, which knows no weight, and learns.
func (d *denseRidge) observe(t *testing.T, z []float64, y, weight float64) float64 {
	t.Helper()
	v := mat.NewVecDense(len(z), z)
	asked := mat.NewSymDense(len(z), nil)
	asked.SymRankOne(d.a, 1, v)
	d.a.SymRankOne(d.a, weight, v)
	var c mat.Cholesky
	require.True(t, c.Factorize(asked), "not positive definite")
	var w mat.VecDense
	require.NoError(t, c.SolveVecTo(&w, d.b))
	f := mat.Dot(v, &w)
	d.b.AddScaledVec(d.b, weight*y, v)
	d.loss += weight * (f - y) * (f - y)
	return f
}

// On real streams every prediction is that of dense forecasters of each ridge, mixed
// as it is written, to 1e-10.
func TestRidgesAgreeWithDenseRecursion(t *testing.T) {
	lambdas := []float64{0.01, 1, 10}
	for _, name := range []string{"energy_adaraker.csv.gz", "casp.csv.gz"} {
		t.Run(name, func(t *testing.T) {
			samples := unitStream(t, name, rounds(300))
			features := fourierOf(samples, 30)
			l, phi, naive := awv.NewRidges(features, awv.Options{}, lambdas), mapped(features), polynomial{}
			var dense []*denseRidge
			for _, lambda := range lambdas {
				dense = append(dense, newDenseRidge(features.Size(), lambda))
			}
			worst, loss := 0.0, 0.0
			for round, s := range samples {
				s.Weight = 1 - 0.5*float64(round%2)
				z, w := phi(s.X), naive.weights(len(lambdas))
				want, advice, gains := 0.0, make([]float64, len(lambdas)), make([]float64, len(lambdas))
				for k, d := range dense {
					advice[k] = d.observe(t, z, s.Y, s.Weight)
					want += w[k] * advice[k]
				}
				for k, f := range advice {
					gains[k] = 2 * s.Weight * (want - s.Y) * (want - f)
				}
				naive.gains = append(naive.gains, gains)
				loss += s.Weight * (want - s.Y) * (want - s.Y)
				out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				worst = math.Max(worst, math.Abs(out.Prediction-want))
			}
			stats, report := l.Stats(), l.Report(model.ReportOptions{})
			near(t, "loss", stats.Loss, loss, 1, 1e-9)
			for k, e := range report.Experts {
				near(t, e.Name, e.Loss, dense[k].loss, 1, 1e-10)
			}
			t.Logf("largest deviation over %d rounds: %.2g", len(samples), worst)
			assert.True(t, worst <= 1e-9 && stats.Certified && stats.CertificateOK, "predictions deviate by %g: %+v", worst, stats)
		})
	}
}

// unitStream is a stream whose inputs and label are on [0, 1]. Rounds without a label
// are left out.
func unitStream(t *testing.T, name string, n int) []modeltest.Sample {
	t.Helper()
	all := modeltest.Stream(t, name, -1)
	kept := all[:0]
	for _, s := range all {
		if !strings.HasPrefix(name, "air_raw") || s.Y != -200 { // Air quality writes it where the label is missing.
			kept = append(kept, s)
		}
	}
	modeltest.Scale(kept)
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range kept {
		low, high = math.Min(low, s.Y), math.Max(high, s.Y)
	}
	for i := range kept {
		kept[i].Y = (kept[i].Y - low) / (high - low)
	}
	return kept[:min(n, len(kept))]
}

// fourierOf is a map of the Gaussian kernel whose σ² is the mean squared distance of two
// rows.
func fourierOf(samples []modeltest.Sample, frequencies int) *feature.Fourier {
	d := len(samples[0].X)
	square := 0.0
	for j := range d {
		mean := 0.0
		for _, s := range samples {
			mean += s.X[j]
		}
		mean /= float64(len(samples))
		for _, s := range samples {
			square += 2 * (s.X[j] - mean) * (s.X[j] - mean)
		}
	}
	sigma := math.Sqrt(square / float64(len(samples)))
	return feature.NewFourier(gaussian(sigma), d, frequencies, true, rand.New(rand.NewPCG(1, 0x666f7572)))
}

// On every stream the mixture of ridges from 1e-3 to 10 loses at most 1.02 times what the best one
// loses.
func TestRidgesOnStreams(t *testing.T) {
	for _, name := range []string{"air", "air_raw", "bike", "casp", "energy", "energy_adaraker", "energy_appliances", "elec2", "movement", "ijcnn1"} {
		t.Run(name, func(t *testing.T) {
			samples := unitStream(t, name+".csv.gz", rounds(2500))
			l := awv.NewRidges(fourierOf(samples, 50), awv.Options{}, []float64{1e-3, 1e-2, 0.1, 1, 10})
			for _, s := range samples {
				must(modeltest.Observe(l, s.X, s.Y, 1))(t)
			}
			s, best := l.Stats(), math.Inf(1)
			for _, e := range l.Report(model.ReportOptions{}).Experts {
				best = math.Min(best, e.Loss)
			}
			t.Logf("%.4f times the best ridge's %.5g", s.Loss/best, best)
			assert.True(t, s.Loss <= 1.02*best && s.Certified && s.CertificateOK, "loss %g, the best ridge %g: %+v", s.Loss, best, s)
		})
	}
}
