package scaling_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
	"hindsight/internal/model/scaling"
)

const dimension = 2

func taylor(outputs int, forgetting float64) func() model.Learner {
	return func() model.Learner {
		return awv.New(feature.NewTaylor(dimension, 1, 3), awv.Options{Lambda: 0.5, Outputs: outputs, Forgetting: forgetting})
	}
}

func options(outputs int, create func() model.Learner) scaling.Options {
	return scaling.Options{
		Dimension: dimension, Outputs: outputs, New: func(int) model.Learner { return create() }, Forgetting: 1, InputLimit: model.MaxMagnitude,
	}
}

func fixed(outputs int) scaling.Options {
	o := options(outputs, taylor(outputs, 1))
	o.Fixed = scaling.Affine{
		Offset: []float64{1, -2}, Scale: []float64{0.5, 3}, LabelOffset: make([]float64, outputs), LabelScale: 0.25,
	}
	for j := range o.Fixed.LabelOffset {
		o.Fixed.LabelOffset[j] = float64(3 - j)
	}
	return o
}

func warming(n, outputs int, forgetting float64) scaling.Options {
	o := options(outputs, taylor(outputs, forgetting))
	o.Warmup, o.Labels, o.Forgetting = n, true, forgetting
	return o
}

// classes is the scaling of a learner of two classes.
func classes(n int, running bool) scaling.Options {
	o := options(1, func() model.Learner {
		return raker.New([]feature.Map{feature.NewTaylor(dimension, 1, 2)}, raker.DefaultOptions(losses.Logistic, false))
	})
	o.Warmup, o.Running = n, running
	return o
}

// class makes a class of any label that is in range.
func class(y float64) float64 {
	if math.IsNaN(y) || math.Abs(y) > model.MaxMagnitude {
		return y
	}
	return math.Copysign(1, y)
}

func TestConformance(t *testing.T) {
	above := func(limit float64) func(float64) bool { return func(v float64) bool { return v > limit } }
	for name, c := range map[string]struct {
		o       scaling.Options
		label   func(float64) float64
		rejects func(float64) bool
	}{
		"fixed":                {fixed(1), nil, above(1e99)},
		"fixed, two outputs":   {fixed(2), nil, above(1e99)},
		"warm-up":              {warming(20, 1, 1), nil, above(model.MaxMagnitude)},
		"warm-up, forgetting":  {warming(20, 2, 0.9), nil, above(model.MaxMagnitude)},
		"long warm-up":         {warming(60, 2, 1), nil, above(model.MaxMagnitude)},
		"catching up at 37":    {warming(37, 2, 1), nil, above(model.MaxMagnitude)},
		"classes":              {classes(10, false), class, above(model.MaxMagnitude)},
		"running":              {running(32, 1, 1), nil, above(model.MaxMagnitude)},
		"running from one row": {running(1, 1, 1), nil, above(model.MaxMagnitude)},
		"running, forgetting":  {running(32, 2, 0.9), nil, above(model.MaxMagnitude)},
		"running, classes":     {classes(32, true), class, above(model.MaxMagnitude)},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Conform(t, modeltest.Subject{
				New: func() model.Learner { return scaling.New(c.o) }, Dimension: dimension, Outputs: c.o.Outputs,
				Label: c.label, Rejects: c.rejects, Warm: 200,
			})
		})
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	require.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance*(1+math.Abs(want)), "%s: got %.17g, want %.17g", what, got, want)
}

// A given scaling is the learner asked in other units.
func TestFixedIsTheLearnerInOtherUnits(t *testing.T) {
	o := fixed(1)
	l, plain := scaling.New(o), o.New(o.Outputs)
	a := o.Fixed
	for n, s := range modeltest.Samples(41, dimension, 100) {
		x := []float64{(s.X[0] - a.Offset[0]) * a.Scale[0], (s.X[1] - a.Offset[1]) * a.Scale[1]}
		p := must(modeltest.Predict(l, s.X))(t)
		want := must(modeltest.Predict(plain, x))(t)
		near(t, fmt.Sprint("prediction ", n), p.Value, want.Value/a.LabelScale+a.LabelOffset[0], 1e-12)
		near(t, "standard error", p.StandardError, want.StandardError/a.LabelScale, 1e-12)
		near(t, "leverage", p.Leverage, want.Leverage, 1e-12)
		out, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
		require.NoError(t, err)
		miss := s.Y - out.Prediction
		near(t, "loss", out.Loss, s.Weight*miss*miss, 1e-12)
		_, err = modeltest.Observe(plain, x, (s.Y-a.LabelOffset[0])*a.LabelScale, s.Weight)
		require.NoError(t, err)
		near(t, "regret", out.Regret, plain.Stats().Regret/(a.LabelScale*a.LabelScale), 1e-9)
	}
	got, want := l.Stats(), plain.Stats()
	near(t, "certificate", got.Certificate, want.Certificate/(a.LabelScale*a.LabelScale), 1e-12)
	near(t, "bound", got.RegretBound, want.RegretBound/(a.LabelScale*a.LabelScale), 1e-12)
	near(t, "label bound", got.LabelBound, want.LabelBound/a.LabelScale, 1e-12)
}

// A warm-up, when it has caught up, ends where a given scaling, of the first
// observations' means and deviations, would be: the same state but for what the
// means had lost.
func TestWarmupFreezesMeansAndDeviations(t *testing.T) {
	for _, n := range []int{1, 2, 25, 32, 33, 63, 64, 150} {
		t.Run(fmt.Sprint(n, " observations"), func(t *testing.T) { freezesMeansAndDeviations(t, n) })
	}
}

// caughtUp is the observation, from 1, after which a warm-up of n has learned
// all: of 32 rows a round one is new.
func caughtUp(n int) int { return n + (max(0, n-32)+30)/31 }

// leastOfConstants is min_c Σω(y−c)², solved directly.
func leastOfConstants(samples []modeltest.Sample) (least float64) {
	sum, weight := 0.0, 0.0
	for _, s := range samples {
		sum, weight = sum+s.Weight*s.Y, weight+s.Weight
	}
	for _, s := range samples {
		least += s.Weight * (s.Y - sum/weight) * (s.Y - sum/weight)
	}
	return least
}

func freezesMeansAndDeviations(t *testing.T, n int) {
	t.Helper()
	samples := modeltest.Samples(42, dimension, 300)
	for i := range samples {
		samples[i].X[0] = 1000 + 5*samples[i].X[0]
		samples[i].Y = -300 + 20*samples[i].Y
		samples[i].Weight = math.Min(samples[i].Weight, 1.9) // Heavier ones are not certified.
	}
	column := func(value func(modeltest.Sample) float64) (mean, deviation float64) {
		mean, deviation = moment(samples[:n], n, value)
		if n == 1 { // Nothing has changed.
			return mean, math.Max(math.Abs(mean), 1)
		}
		return mean, deviation
	}
	given := options(1, taylor(1, 1))
	for i := range dimension {
		mean, deviation := column(func(s modeltest.Sample) float64 { return s.X[i] })
		given.Fixed.Offset = append(given.Fixed.Offset, mean)
		given.Fixed.Scale = append(given.Fixed.Scale, 1/(2*deviation*math.Sqrt(dimension)))
	}
	mean, deviation := column(func(s modeltest.Sample) float64 { return s.Y })
	given.Fixed.LabelOffset, given.Fixed.LabelScale = []float64{mean}, 1/deviation
	if n == 1 {
		given.Fixed.LabelScale = 1
	}
	warm, frozen := scaling.New(warming(n, 1, 1)), scaling.New(given)
	sum, weight, lost, total := 0.0, 0.0, 0.0, 0.0
	for i, s := range samples {
		p := must(modeltest.Predict(warm, s.X))(t)
		out := must(modeltest.Observe(warm, s.X, s.Y, s.Weight))(t)
		want := must(modeltest.Observe(frozen, s.X, s.Y, s.Weight))(t)
		st := warm.Stats()
		total += out.Loss
		require.True(t, out.Regret == st.Regret && st.Observations == uint64(i+1), "after %d observations: regret %g, %+v", i+1, out.Regret, st)
		if i < caughtUp(n)-1 { // Against the best constant.
			least := leastOfConstants(samples[:i+1])
			near(t, "hindsight loss of the means", st.HindsightLoss, least, 1e-9)
			near(t, "regret of the means", st.Regret, total-least, 1e-9)
			r := warm.Report(model.ReportOptions{})
			require.True(t, r.Regret == st.Regret && r.HindsightLoss == st.HindsightLoss && !st.Certified, "after %d observations: %+v, reported %+v", i+1, st, r)
		}
		if i < caughtUp(n) {
			if i > 0 {
				near(t, fmt.Sprint("the mean of ", i), out.Prediction, sum/weight, 1e-12)
				near(t, "standard error", p.StandardError, math.Sqrt(leastOfConstants(samples[:i])/weight/float64(i)), 1e-9)
			}
			near(t, "the mean as predicted", p.Value, out.Prediction, 0)
			lost += out.Loss - want.Loss
		} else {
			near(t, "prediction as predicted", p.Value, out.Prediction, 1e-9)
			near(t, fmt.Sprint("prediction ", i), out.Prediction, want.Prediction, 1e-9)
			near(t, "regret", out.Regret, want.Regret+lost, 1e-7)
		}
		sum, weight = sum+s.Weight*s.Y, weight+s.Weight
	}
	got, want := warm.Stats(), frozen.Stats()
	near(t, "loss", got.Loss, total, 1e-12)
	near(t, "hindsight loss", got.HindsightLoss, want.HindsightLoss, 1e-9)
	near(t, "regret is the difference", got.Regret, got.Loss-got.HindsightLoss, 1e-7)
	assert.False(t, !got.Certified || !got.CertificateOK || got.Regret > got.Certificate || got.Certificate > got.RegretBound || got.Observations != 300, "%+v", got)
	near(t, "unpenalized", warm.Report(model.ReportOptions{}).RegretUnpenalized-got.Regret, frozen.Report(model.ReportOptions{}).RegretUnpenalized-want.Regret, 1e-7)
}

// Columns that do not change, and numbers at the ends of their range, make a
// scaling that nothing falls out of, also what comes after it.
func TestHardColumns(t *testing.T) {
	for name, first := range map[string]modeltest.Sample{
		"zero":     {X: []float64{0, 0}, Y: 0, Weight: 1},
		"constant": {X: []float64{7, 1e100}, Y: -1e100, Weight: 1e9},
		"denormal": {X: []float64{5e-324, 1e-200}, Y: 1e-300, Weight: 1e-9},
	} {
		for _, o := range []scaling.Options{warming(4, 1, 1), running(4, 1, 1)} {
			hardColumns(t, name, scaling.New(o), first)
		}
	}
}

func hardColumns(t *testing.T, name string, l *scaling.Learner, first modeltest.Sample) {
	t.Helper()
	for n := range 12 {
		s := first
		if n >= 4 {
			s = modeltest.Sample{X: []float64{-1e100, 3}, Y: 1e100, Weight: 1}
		}
		if n == 8 {
			s.X = []float64{1e100, -1e100}
		}
		p, err := modeltest.Predict(l, s.X)
		require.NoError(t, err, name)
		o, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
		require.NoError(t, err, name)
		for _, v := range []float64{p.Value, p.StandardError, o.Prediction, o.Loss} {
			require.True(t, !math.IsNaN(v) && !math.IsInf(v, 0), "%s, round %d: %+v, %+v", name, n, p, o)
		}
	}
}

// A state restored in the warm-up, at its end or after it goes on bit for bit.
func TestRestoreAroundTheFreeze(t *testing.T) {
	for _, n := range []int{20, 70} {
		t.Run(fmt.Sprint(n, " observations"), func(t *testing.T) { restoresAroundTheFreeze(t, warming(n, 1, 0.95)) })
	}
	t.Run("running", func(t *testing.T) { restoresAroundTheFreeze(t, running(32, 1, 0.95)) })
}

func restoresAroundTheFreeze(t *testing.T, o scaling.Options) {
	t.Helper()
	n := o.Warmup
	samples := modeltest.Samples(43, dimension, 90)
	whole := scaling.New(o)
	var states [][]byte
	for _, s := range samples {
		state := modeltest.State(t, whole.Visit)
		states = append(states, state)
		_, err := modeltest.Observe(whole, s.X, s.Y, s.Weight)
		require.NoError(t, err)
	}
	for _, at := range []int{0, 1, n - 1, n, n + 1, n + 2, n + 3, 89} {
		l := scaling.New(o)
		require.NoError(t, codec.Read(states[at], l.Visit))
		for k := at; k < len(samples); k++ {
			state, err := codec.Append(nil, l.Visit)
			require.True(t, err == nil && bytes.Equal(state, states[k]), "restored at %d, differs at %d (%v)", at, k, err)
			_, err = modeltest.Observe(l, samples[k].X, samples[k].Y, samples[k].Weight)
			require.NoError(t, err)
		}
	}
}

// counting is a learner that counts what it learns.
type counting struct {
	model.Learner
	learned int
}

func (c *counting) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	c.learned++
	return c.Learner.Observe(o, x, y, weight)
}

// Whatever the warm-up, an Observe teaches the learner a bounded number of
// observations, and what it has learned is no longer kept.
func TestAnObserveLearnsAFew(t *testing.T) {
	const n = 1000
	o := warming(n, 1, 1)
	create, inner := o.New, &counting{}
	o.New = func(outputs int) model.Learner {
		inner = &counting{Learner: create(outputs)}
		return inner
	}
	l := scaling.New(o)
	empty, row := l.Size(), uint64(0)
	for i, s := range modeltest.Samples(44, dimension, 1100) {
		before := inner.learned
		_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
		require.NoError(t, err)
		if row == 0 {
			row = l.Size() - empty
		}
		want := 0
		switch {
		case i+1 >= n && i+1 < caughtUp(n):
			want = scaling.CatchUp
		case i+1 == caughtUp(n):
			want = i + 1 - before
		case i+1 > caughtUp(n):
			want = 1
		}
		got := inner.learned - before
		require.True(t, got == want && got <= scaling.CatchUp, "observation %d: %d learned, want %d", i+1, got, want)
		if kept := uint64(i + 1 - inner.learned); l.Size() != empty+kept*row || l.Size() > inner.Size()+o.Cost() {
			t.Fatalf("observation %d: %d bytes with %d rows of %d kept, empty %d, cost %d", i+1, l.Size(), kept, row, empty, o.Cost())
		}
	}
	assert.Equal(t, 1100, inner.learned)
}

// A learner of few observations has learned all of them when it is full,
// whatever the warm-up.
func TestABoundedLearnerCatchesUp(t *testing.T) {
	samples := modeltest.Samples(45, dimension, 130)
	for _, warm := range []int{10, 32, 33, 60, 99, 100} {
		o := options(1, func() model.Learner {
			return awv.NewKernel(awv.KernelOptions{
				Kernel: kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}, Dimension: dimension, Lambda: 1, Capacity: 100,
			})
		})
		o.Warmup, o.Labels = warm, true
		l := scaling.New(o)
		for i, s := range samples {
			left := l.Remaining()
			require.True(t, left == max(0, 100-i), "warm-up of %d: room for %d after %d", warm, left, i)
			_, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
			require.True(t, (i >= 100 || err == nil) && (i < 100 || errors.Is(err, model.ErrObservationLimit)), "warm-up of %d, observation %d: %v", warm, i, err)
		}
		s := l.Stats()
		assert.True(t, !math.IsNaN(s.Regret) && s.Features == 100 && s.Observations == 100, "warm-up of %d: %+v", warm, s)
	}
}
