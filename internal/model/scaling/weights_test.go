package scaling_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/scaling"
)

const ridge = 0.5

func affine(outputs int, forgetting float64) func() model.Learner {
	return func() model.Learner {
		return awv.New(feature.NewAffine(dimension), awv.Options{Lambda: ridge, Outputs: outputs, Forgetting: forgetting})
	}
}

// ridgeOf solves (λI + Σ w zzᵀ) g = Σ w z y for z = (x, 1) densely.
func ridgeOf(t *testing.T, xs [][]float64, ys, weights []float64) []float64 {
	t.Helper()
	n := dimension + 1
	a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		a.SetSym(i, i, ridge)
	}
	for k, x := range xs {
		z := mat.NewVecDense(n, append(append([]float64(nil), x...), 1))
		a.SymRankOne(a, weights[k], z)
		b.AddScaledVec(b, weights[k]*ys[k], z)
	}
	var factor mat.Cholesky
	require.True(t, factor.Factorize(a), "the Gram matrix is not positive")
	var g mat.VecDense
	require.NoError(t, factor.SolveVecTo(&g, b))
	return g.RawVector().Data
}

// valueOf is the affine function of the weights of an output at x.
func valueOf(weights []model.Weight, output int, x []float64) float64 {
	total := 0.0
	for _, w := range weights {
		switch {
		case w.Output != output:
		case w.Input == model.NoInput:
			total += w.Value
		default:
			total += w.Value * x[w.Input]
		}
	}
	return total
}

// The weights of a report are, in the caller's units, those of the best ridge function
// in hindsight of the scaled inputs and labels, solved densely; of a running scaling of
// the inputs as they were scaled when they came, at the present scaling.
func TestWeightsAreThoseOfTheRidgeFunction(t *testing.T) {
	const warmup = 32
	given := options(2, affine(2, 1))
	given.Fixed = scaling.Affine{Offset: []float64{1010, -2}, Scale: []float64{-0.02, 3}, LabelOffset: []float64{-300, 7}, LabelScale: 0.05}
	frozen := options(2, affine(2, 1))
	frozen.Warmup, frozen.Labels = warmup, true
	inputsAlone := options(2, affine(2, 1))
	inputsAlone.Warmup = warmup
	moving := frozen
	moving.Running = true
	for name, o := range map[string]scaling.Options{"fixed": given, "warm-up": frozen, "warm-up of the inputs": inputsAlone, "running": moving} {
		t.Run(name, func(t *testing.T) {
			samples := moved(51, 300)
			l := scaling.New(o)
			var out model.Outcome
			labels := func(s modeltest.Sample) []float64 { return []float64{s.Y, 3*s.X[0] - 7*s.X[1]} }
			for n, s := range samples {
				weights := l.Report(model.ReportOptions{}).Weights
				require.True(t, o.Warmup <= n || weights == nil, "%v after %d observations", weights, n)
				require.NoError(t, l.Observe(&out, s.X, labels(s), s.Weight))
			}
			a := scaling.Affine{LabelOffset: make([]float64, 2), LabelScale: 1}
			if o.Warmup == 0 {
				a = o.Fixed
			}
			if o.Labels {
				square := 0.0
				for j := range 2 {
					var deviation float64
					a.LabelOffset[j], deviation = moment(samples[:warmup], warmup, func(s modeltest.Sample) float64 { return labels(s)[j] })
					square += deviation * deviation / 2
				}
				a.LabelScale = 1 / math.Sqrt(square)
			}
			// at is the scaling of the inputs after so many rows.
			at := func(rows int) scaling.Affine {
				if o.Warmup > 0 {
					if !o.Running {
						rows = warmup
					}
					var deviations []float64
					a.Offset, deviations = meansAndDeviations(samples[:max(rows, warmup)], warmup)
					a.Scale = make([]float64, dimension)
					for i, deviation := range deviations {
						a.Scale[i] = 1 / (2 * deviation * math.Sqrt(dimension))
					}
				}
				return a
			}
			scaled := func(x []float64, a scaling.Affine) []float64 {
				return []float64{(x[0] - a.Offset[0]) * a.Scale[0], (x[1] - a.Offset[1]) * a.Scale[1]}
			}
			weights := l.Report(model.ReportOptions{}).Weights
			require.Len(t, weights, 2*(dimension+1))
			now := at(len(samples))
			for j := range 2 {
				var xs [][]float64
				var ys, importances []float64
				for n, s := range samples {
					xs = append(xs, scaled(s.X, at(n)))
					ys, importances = append(ys, (labels(s)[j]-a.LabelOffset[j])*a.LabelScale), append(importances, s.Weight)
				}
				g := ridgeOf(t, xs, ys, importances)
				for _, s := range samples[:20] {
					x := scaled(s.X, now)
					near(t, fmt.Sprint("output ", j), valueOf(weights, j, s.X), (g[0]*x[0]+g[1]*x[1]+g[2])/a.LabelScale+a.LabelOffset[j], 1e-9)
				}
				for i := range dimension {
					w := weights[j*(dimension+1)+i]
					near(t, "a weight", w.Value, g[i]*now.Scale[i]/a.LabelScale, 1e-9)
					if o.Warmup == 0 {
						assert.True(t, math.IsNaN(w.Effect), "%+v, of an input whose deviation is not known", w)
						continue
					}
					near(t, "an effect", w.Effect, w.Value/(2*now.Scale[i]*math.Sqrt(dimension)), 1e-9)
				}
				c := weights[j*(dimension+1)+dimension]
				assert.True(t, c.Output == j && c.Input == model.NoInput && math.IsNaN(c.Effect), "the constant is %+v", c)
			}
		})
	}
}

// A prediction is the value of the ridge function over 1 + q, about the mean label: with
// a forgetting factor too, and of a learner that was restored.
func TestWeightsBesidePredictions(t *testing.T) {
	for _, forgetting := range []float64{1, 0.95} {
		for name, change := range map[string]func(*scaling.Options){
			"none": func(o *scaling.Options) {
				o.Fixed = scaling.Affine{Offset: []float64{0, 0}, Scale: []float64{1, 1}, LabelOffset: []float64{0}, LabelScale: 1}
			},
			"warm-up": func(o *scaling.Options) { o.Warmup = 40 },
			"running": func(o *scaling.Options) { o.Warmup, o.Running = 10, true },
		} {
			o := options(1, affine(1, forgetting))
			o.Forgetting = forgetting
			change(&o)
			l := scaling.New(o)
			samples := moved(52, 200)
			for _, s := range samples[:150] {
				_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
				require.NoError(t, err)
			}
			state := must(l.AppendBinary(nil))(t)
			again := scaling.New(o)
			require.NoError(t, again.Restore(state))
			weights := again.Report(model.ReportOptions{}).Weights
			for _, s := range samples[150:] {
				p := must(modeltest.Predict(l, s.X))(t)
				near(t, fmt.Sprint(name, ", forgetting ", forgetting), valueOf(weights, 0, s.X), p.Value/(1-p.Leverage), 1e-9)
			}
		}
	}
}
