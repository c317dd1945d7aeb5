package awv_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
				return nystrom(func(o *awv.NystromOptions) { o.Lambdas, o.MaxDictionary, o.Window = []float64{0.1, 1, 10}, 12, 16 })
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
				o.Lambda, o.Lambdas, o.Outputs, o.Window, o.MaxDictionary = lambda, lambdas, 2, 9, 20
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
				want := stateOf(t, plain)
				if !bytes.Equal(stateOf(t, one), want) || fmt.Sprint(one.Stats()) != fmt.Sprint(plain.Stats()) {
					t.Errorf("λ = %g: one ridge alone is another learner: %+v, want %+v", lambda, one.Stats(), plain.Stats())
				}
				if name == "taylor" {
					states = append(states, want)
				}
			}
			all := bytes.Join(states, nil)
			assert.True(t, bytes.HasPrefix(stateOf(t, several), all), "a ridge of several is not the plain learner")
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

func stateOf(t *testing.T, l model.Learner) []byte {
	t.Helper()
	return must(l.AppendBinary(nil))(t)
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
		l := nystrom(func(o *awv.NystromOptions) { o.Given, o.Lambdas, o.Outputs = centres[:m], lambdas, 2 })
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
