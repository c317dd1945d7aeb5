package scaling_test

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
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/scaling"
)

func running(n, outputs int, forgetting float64) scaling.Options {
	o := warming(n, outputs, forgetting)
	o.Running = true
	return o
}

// moved are samples in units of their own.
func moved(seed uint64, n int) []modeltest.Sample {
	samples := modeltest.Samples(seed, dimension, n)
	for i := range samples {
		samples[i].X[0] = 1000 + 5*samples[i].X[0] + float64(i)/10
		samples[i].Y = -300 + 20*samples[i].Y
	}
	return samples
}

// counts are ω of some rows: by the weights of all rows of the warm-up, and then of the rows
// up to each.
func counts(samples []modeltest.Sample, warmup int) []float64 {
	out, sum := make([]float64, len(samples)), 0.0
	for i, s := range samples {
		sum += s.Weight
		for j := range i + 1 {
			if j == i || i < warmup {
				out[j] = min(1, samples[j].Weight*float64(i+1)/sum)
			}
		}
	}
	return out
}

// moment is the mean and the deviation of a number of some rows, in two passes.
func moment(samples []modeltest.Sample, warmup int, of func(modeltest.Sample) float64) (mean, deviation float64) {
	total, counted := 0.0, counts(samples, warmup)
	for i, s := range samples {
		total += counted[i]
		mean += counted[i] * of(s)
	}
	mean /= total
	for i, s := range samples {
		deviation += counted[i] * (of(s) - mean) * (of(s) - mean) / total
	}
	return mean, math.Sqrt(deviation)
}

// meansAndDeviations are those of the inputs of some rows.
func meansAndDeviations(samples []modeltest.Sample, warmup int) (means, deviations []float64) {
	means, deviations = make([]float64, dimension), make([]float64, dimension)
	for i := range dimension {
		means[i], deviations[i] = moment(samples, warmup, func(s modeltest.Sample) float64 { return s.X[i] })
	}
	return means, deviations
}

// A running scaling is the learner asked in the units of the rows before: those
// of the warm-up in the units of all of them, every later one in those of all
// before it. The regret is the learner's, and what the means lost beyond it.
func TestRunningIsTheLearnerInTheUnitsOfTheRowsBefore(t *testing.T) {
	const n = 32
	samples := moved(46, 300)
	for i := range samples {
		samples[i].Weight = math.Min(samples[i].Weight, 1.9) // Heavier ones are not certified.
	}
	o := running(n, 1, 1)
	l, plain := scaling.New(o), o.New(o.Outputs)
	mean, deviation := moment(samples[:n], n, func(s modeltest.Sample) float64 { return s.Y })
	square := deviation * deviation
	scaled := func(x []float64, before int) []float64 {
		means, deviations := meansAndDeviations(samples[:max(before, n)], n)
		out := make([]float64, dimension)
		for i := range out {
			out[i] = (x[i] - means[i]) / (2 * deviations[i] * math.Sqrt(dimension))
		}
		return out
	}
	total, learned, sum, weight := 0.0, 0.0, 0.0, 0.0
	for i, s := range samples {
		p := must(modeltest.Predict(l, s.X))(t)
		x := scaled(s.X, i)
		want := must(modeltest.Predict(plain, x))(t)
		out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		inner := must(modeltest.Observe(plain, x, (s.Y-mean)/deviation, s.Weight))(t)
		total += out.Loss
		learned += inner.Loss * square
		if i < n {
			near(t, fmt.Sprint("the mean of ", i), out.Prediction, sum/math.Max(weight, 1e-300), 1e-12)
			sum, weight = sum+s.Weight*s.Y, weight+s.Weight
		} else {
			near(t, fmt.Sprint("prediction ", i), p.Value, want.Value*deviation+mean, 1e-9)
			near(t, fmt.Sprint("prequential prediction ", i), out.Prediction, inner.Prediction*deviation+mean, 1e-9)
			near(t, "standard error", p.StandardError, want.StandardError*deviation, 1e-9)
			near(t, "leverage", p.Leverage, want.Leverage, 1e-9)
		}
		if i >= n-1 {
			near(t, fmt.Sprint("regret ", i), out.Regret, inner.Regret*square+total-learned, 1e-7)
		}
	}
	got, want := l.Stats(), plain.Stats()
	near(t, "loss", got.Loss, total, 1e-12)
	near(t, "hindsight loss", got.HindsightLoss, want.HindsightLoss*square, 1e-9)
	near(t, "regret is the difference", got.Regret, got.Loss-got.HindsightLoss, 1e-7)
	// The bounds are the learner's, of its inputs as they were, and what the means lost
	// beyond it.
	near(t, "certificate", got.Certificate, want.Certificate*square+total-learned, 1e-9)
	near(t, "bound", got.RegretBound, want.RegretBound*square+total-learned, 1e-9)
	assert.False(t, !want.Certified || !got.Certified || !got.CertificateOK || got.Regret > got.Certificate || got.Certificate > got.RegretBound, "%+v", got)
}

// The inputs of a list have one scale, by the root of the mean of their squared
// deviations, after a warm-up as in a running scaling, and after a restore. The units of
// a list do not matter; those of its inputs beside each other do. A joint list counts as
// one input: it has the root of the sum.
func TestListsHaveOneScale(t *testing.T) {
	const n = 16
	samples := moved(47, 120)
	for name, c := range map[string]struct{ running, joint bool }{
		"warm-up": {}, "running": {running: true}, "joint, warm-up": {joint: true}, "joint, running": {true, true},
	} {
		running, inputs := c.running, float64(dimension)
		if c.joint {
			inputs = 1
		}
		o := options(1, affine(1, 1))
		o.Warmup, o.Running, o.Lists = n, running, []scaling.List{{From: 0, To: dimension, Joint: c.joint}}
		l, plain := scaling.New(o), affine(1, 1)()
		for i, s := range samples {
			seen := n
			if running {
				seen = max(i, n)
			}
			means, deviations := meansAndDeviations(samples[:seen], n)
			square := 0.0
			for _, d := range deviations {
				square += d * d / inputs
			}
			x := make([]float64, dimension)
			for j := range x {
				x[j] = (s.X[j] - means[j]) / (2 * math.Sqrt(square) * math.Sqrt(inputs))
			}
			if i == 80 {
				state := modeltest.State(t, l.Visit)
				l = scaling.New(o)
				require.NoError(t, codec.Read(state, l.Visit), "the state is rejected")
			}
			if i >= n {
				got := must(modeltest.Predict(l, s.X))(t)
				want := must(modeltest.Predict(plain, x))(t)
				near(t, fmt.Sprint(name, ": leverage ", i), got.Leverage, want.Leverage, 1e-9)
			}
			_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
			require.NoError(t, err)
			_, err = modeltest.Observe(plain, x, s.Y, s.Weight)
			require.NoError(t, err)
		}
	}
}

// A running scaling does not see units: inputs and labels in others, by powers
// of two, give the same bits, and predictions in the other unit.
func TestRunningDoesNotSeeUnits(t *testing.T) {
	a, b := scaling.New(running(32, 1, 1)), scaling.New(running(32, 1, 1))
	for i, s := range moved(47, 200) {
		x := []float64{s.X[0] * 1024, s.X[1] / 4096}
		p := must(modeltest.Predict(a, s.X))(t)
		q, err := modeltest.Predict(b, x)
		require.NoError(t, err)
		require.True(t, q.Value == 64*p.Value && q.Leverage == p.Leverage, "round %d: %+v, in other units %+v", i, p, q)
		_, err = modeltest.Observe(a, s.X, s.Y, s.Weight)
		require.NoError(t, err)
		_, err = modeltest.Observe(b, x, 64*s.Y, s.Weight)
		require.NoError(t, err)
	}
}

// seeing is a learner that sees what it is asked and taught, and knows nothing.
type seeing struct {
	model.Learner
	x []float64
}

func (s *seeing) Stats() model.Stats { return model.Stats{} }

func (s *seeing) Check([]float64, []float64, float64) error { return nil }

func (s *seeing) Observe(o *model.Outcome, x, _ []float64, _ float64) error {
	o.Resize(1)
	copy(s.x, x)
	return nil
}

// The mean of an input is exact to its last digit and the deviation to 1e-9,
// however many rows there are, far from 0, and at the ends of the range.
func TestMomentsOfHardInputs(t *testing.T) {
	rows := 1_000_000
	if testing.Short() {
		rows = 100_000
	}
	s := &seeing{x: make([]float64, dimension)}
	o := running(32, 1, 1)
	o.New = func(int) model.Learner { return s }
	for name, c := range map[string]struct{ mean, deviation float64 }{
		"plain":                {3, 2},
		"far from 0":           {1e12, 1},
		"farther":              {-1e14, 8},
		"large":                {9e99, 1e98},
		"large, of both signs": {0, 1e100},
		"small":                {1e-100, 1e-101},
	} {
		l := scaling.New(o)
		var out model.Outcome
		x, y := make([]float64, dimension), []float64{0}
		digit := (math.Nextafter(math.Abs(c.mean), math.Inf(1)) - math.Abs(c.mean)) / c.deviation
		for n := range rows {
			// Mean and deviation are these at every even n.
			side := float64(1 - 2*(n%2))
			x[0], x[1] = c.mean+side*c.deviation, c.mean
			if err := l.Observe(&out, x, y, 1); err != nil { // A million calls of require take three times as long.
				t.Fatal(err)
			}
			if n < 32 {
				continue
			}
			// Before an odd row, one more has been above than below.
			want := side / (2 * math.Sqrt(dimension))
			if n%2 == 1 {
				want = (-1 - 1/float64(n)) / math.Sqrt(1-1/float64(n)/float64(n)) / (2 * math.Sqrt(dimension))
			}
			if !(math.Abs(s.x[0]-want) <= 1e-9+digit) || s.x[1] != 0 {
				t.Fatalf("%s, row %d: scaled to %v, want %.17g and 0", name, n, s.x, want)
			}
		}
	}
}

// A state of another kind of scaling is rejected.
func TestStatesOfAnotherScaling(t *testing.T) {
	state := func(o scaling.Options) []byte {
		l := scaling.New(o)
		for _, s := range moved(48, 40) {
			_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
			require.NoError(t, err)
		}
		b := modeltest.State(t, l.Visit)
		return b
	}
	frozen, run := warming(32, 1, 1), running(32, 1, 1)
	for name, c := range map[string]struct {
		o     scaling.Options
		state []byte
	}{"frozen": {run, state(frozen)}, "running": {frozen, state(run)}} {
		assert.ErrorIs(t, codec.Read(c.state, scaling.New(c.o).Visit), codec.ErrCorrupt, name)
	}
}

// The regret behind a running scaling, with several ways of labels, is that against the
// best function of the inputs as they were scaled in their rounds, solved densely over
// them, and it is below certificate and bound.
func TestRunningRegretIsAgainstTheInputsAsTheyWere(t *testing.T) {
	const n = 32
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 73))
	for kind := range 3 {
		o := options(1, affine(1, 1))
		o.Warmup, o.Labels, o.Running = n, true, true
		l := scaling.New(o)
		samples := moved(rng.Uint64(), 200)
		for i := range samples {
			s := &samples[i]
			s.Weight = math.Min(s.Weight, 1.9)
			p, err := modeltest.Predict(l, s.X)
			require.NoError(t, err)
			switch kind {
			case 1: // Far from what is predicted.
				s.Y = -300 - math.Copysign(40, p.Value+300)
			case 2:
				s.Y = -300 + 3*s.X[1]
			}
			_, err = modeltest.Observe(l, s.X, s.Y, s.Weight)
			require.NoError(t, err)
		}
		mean, deviation := moment(samples[:n], n, func(s modeltest.Sample) float64 { return s.Y })
		square := deviation * deviation
		var xs [][]float64
		var ys, weights []float64
		for i, s := range samples {
			means, deviations := meansAndDeviations(samples[:max(i, n)], n)
			x := make([]float64, dimension)
			for j := range x {
				x[j] = (s.X[j] - means[j]) / (2 * deviations[j] * math.Sqrt(dimension))
			}
			xs, ys, weights = append(xs, x), append(ys, (s.Y-mean)/math.Sqrt(square)), append(weights, s.Weight)
		}
		g, least := ridgeOf(t, xs, ys, weights), 0.0
		for i, x := range xs {
			miss := ys[i] - g[0]*x[0] - g[1]*x[1] - g[2]
			least += weights[i] * miss * miss
		}
		for _, v := range g {
			least += ridge * v * v
		}
		s := l.Stats()
		near(t, "hindsight loss", s.HindsightLoss, least*square, 1e-9)
		near(t, "regret", s.Regret, s.Loss-least*square, 1e-7)
		assert.True(t, s.Certified && s.CertificateOK && s.Regret <= s.Certificate && s.Certificate <= s.RegretBound, "labels %d: %+v", kind, s)
	}
}

// Beside rows of the least weight, in other units and with other labels, a scaled learner
// predicts what it predicts without them: in a warm-up, after it, and after a restore.
func TestLightRowsCountNextToNothing(t *testing.T) {
	for name, running := range map[string]bool{"warm-up": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			o := options(1, affine(1, 1))
			o.Warmup, o.Running, o.Labels = 30, running, true
			alone := o
			alone.Warmup = 20 // As many rows as beside the light rows.
			l, want := scaling.New(o), scaling.New(alone)
			rng := rand.New(rand.NewPCG(8, 2))
			for i, s := range moved(49, 300) {
				s.Weight = 1
				observeOne(t, want, s)
				observeOne(t, l, s)
				if i%2 == 1 {
					light := s
					light.X = make([]float64, dimension)
					for j := range light.X {
						light.X[j] = 1e3 * rng.NormFloat64()
					}
					light.Y, light.Weight = 1e5*rng.NormFloat64(), model.MinWeight
					observeOne(t, l, light)
				}
				if i < 20 {
					continue
				}
				got := must(modeltest.Predict(l, s.X))(t)
				expected := must(modeltest.Predict(want, s.X))(t)
				require.InDelta(t, expected.Value, got.Value, 0.2, "row %d: %g beside light rows, %g without", i, got.Value, expected.Value)
				if i == 150 {
					l = restored(t, l, o)
				}
			}
		})
	}
}

func observeOne(t *testing.T, l model.Learner, s modeltest.Sample) {
	t.Helper()
	_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
	require.NoError(t, err)
}

func restored(t *testing.T, l *scaling.Learner, o scaling.Options) *scaling.Learner {
	t.Helper()
	state := modeltest.State(t, l.Visit)
	again := scaling.New(o)
	require.NoError(t, codec.Read(state, again.Visit))
	return again
}

// must returns the value of a call, and ends the test if the call failed.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

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
			state := modeltest.State(t, l.Visit)
			again := scaling.New(o)
			require.NoError(t, codec.Read(state, again.Visit))
			weights := again.Report(model.ReportOptions{}).Weights
			for _, s := range samples[150:] {
				p := must(modeltest.Predict(l, s.X))(t)
				near(t, fmt.Sprint(name, ", forgetting ", forgetting), valueOf(weights, 0, s.X), p.Value/(1-p.Leverage), 1e-9)
			}
		}
	}
}
