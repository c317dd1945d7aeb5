package kons_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

func gaussian(sigma float64) kernel.Kernel { return kernel.Kernel{Kind: kernel.Gaussian, Sigma: sigma} }

func waves(frequencies int) feature.Map {
	return feature.NewFourier(gaussian(1), 2, frequencies, true, rand.New(rand.NewPCG(1, 1)))
}

func mapped(m feature.Map) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		z := make([]float64, m.Size())
		m.Map(z, x)
		return z
	}
}

// ways are options of each loss and each way to C, by name.
func ways() map[string]kons.Options {
	return map[string]kons.Options{
		"squared":                {Alpha: 1, TrackRegret: true},
		"squared, range":         {Alpha: 0.7, Low: -0.5, High: 1.25, TrackRegret: true},
		"squared, wide range":    {Alpha: 0.1, Low: -4, High: 6},
		"logistic":               {Alpha: 0.01, Loss: losses.Logistic, Clip: 5},
		"logistic, narrow":       {Alpha: 0.1, Loss: losses.Logistic, Clip: 0.3},
		"hinge":                  {Alpha: 0.05, Loss: losses.Hinge, Clip: 1.5},
		"hinge, clip .4":         {Alpha: 0.3, Loss: losses.Hinge, Clip: 0.4},
		"squared hinge":          {Alpha: 0.01, Loss: losses.SquaredHinge, Clip: 1},
		"squared hinge, clip 3":  {Alpha: 0.3, Loss: losses.SquaredHinge, Clip: 3},
		"squared hinge, clip .4": {Alpha: 0.3, Loss: losses.SquaredHinge, Clip: 0.4},
	}
}

func nystrom(o kons.Options, set func(*kons.NystromOptions)) *kons.Nystrom {
	n := kons.NystromOptions{Options: o, Dictionary: feature.SampledOptions{
		Kernel: gaussian(1), Dimension: 2, Bound: 1e12 * o.Alpha, Mu: 0.1, Epsilon: 0.5, Beta: 1, Capacity: 512, Seed: 1,
	}}
	if set != nil {
		set(&n)
	}
	return kons.NewNystrom(n)
}

func exact(o kons.Options, set func(*kons.ExactOptions)) *kons.Exact {
	o.TrackRegret = false
	e := kons.ExactOptions{Options: o, Kernel: gaussian(1), Dimension: 2, Gamma: 1, Epsilon: 0.5, Beta: 1, Capacity: 4000, Seed: 1}
	if set != nil {
		set(&e)
	}
	return kons.NewExact(e)
}

func TestLearnersConform(t *testing.T) {
	given := [][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}}
	for _, name := range []string{"squared", "squared, range", "logistic", "squared hinge, clip 3"} {
		o := ways()[name]
		classes := func(y float64) float64 { return y }
		if o.Loss != losses.Squared {
			classes = sign
		}
		several := o
		several.Outputs = 3
		for kind, s := range map[string]modeltest.Subject{
			"newton":         {New: func() model.Learner { return kons.New(waves(5), o) }},
			"newton, 3":      {New: func() model.Learner { return kons.New(waves(4), several) }, Outputs: 3},
			"nystrom, grow":  {New: func() model.Learner { return nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Capacity = 12 }) }},
			"nystrom, given": {New: func() model.Learner { return nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Given = given }) }},
			"nystrom, 3, restart": {Outputs: 3, New: func() model.Learner {
				return nystrom(several, func(o *kons.NystromOptions) { o.Dictionary.Capacity, o.Restart = 12, true })
			}},
			"exact":       {New: func() model.Learner { return exact(o, nil) }, Grows: true},
			"exact, 3":    {New: func() model.Learner { return exact(several, nil) }, Grows: true, Outputs: 3},
			"sketched":    {New: func() model.Learner { return exact(o, func(o *kons.ExactOptions) { o.Gamma = 0.3 }) }, Grows: true},
			"sketched, 3": {New: func() model.Learner { return exact(several, func(o *kons.ExactOptions) { o.Gamma = 0.1 }) }, Grows: true, Outputs: 3},
		} {
			s.Dimension, s.Label = 2, classes
			s.Rejects = func(magnitude float64) bool { return magnitude > model.MaxMagnitude }
			t.Run(name+", "+kind, func(t *testing.T) { modeltest.Conform(t, s) })
		}
	}
}

// Over fixed features every prediction is that of eq. (1) solved densely, with weights,
// where predictions are cut too; and so are certificate, determinant and loss.
func TestNewtonIsTheDenseRecursion_ICML_2017_Eq1(t *testing.T) {
	for name, o := range ways() {
		t.Run(name, func(t *testing.T) {
			features := waves(6)
			l := kons.New(features, o)
			n := newNaive(o, mapped(features))
			for at, s := range modeltest.Samples(8, 2, 400) {
				s.Y *= 1 + float64(at)/100 // A range without a given one doubles now and then.
				if o.Loss != losses.Squared {
					s.Y = sign(s.Y + s.X[0])
				}
				p, err := modeltest.Predict(l, s.X)
				require.NoError(t, err)
				out := observe(t, l, s)
				n.observe(t, s, out.Prediction)
				require.True(t, p.Value == out.Prediction, "round %d: Predict says %g, Observe %g", at, p.Value, out.Prediction)
			}
			s := l.Stats()
			near(t, "loss", s.Loss, n.loses, 1, 1e-11)
			near(t, "log determinant", s.LogDeterminant, n.logDet, float64(len(n.m)), n.rounding())
			if s.Certified {
				near(t, "certificate", s.Certificate, n.certificate, 1, n.rounding())
			}
			assert.True(t, n.cuts != 0 || name == "squared", "nothing was cut")
			certified := o.Loss != losses.Squared || (o.High > 2)
			assert.True(t, !s.Certified || certified, "certified: %+v", s)
		})
	}
}

// An observation whose row drowns the ridge is not admitted, and one that a log holds is
// learned: what is served stays within the clip.
func TestAFloodedRidgeIsNotAdmitted(t *testing.T) {
	l := exact(kons.Options{Alpha: 1e-2, Loss: losses.Logistic, Clip: 2}, func(o *kons.ExactOptions) { o.Kernel = polynomial() })
	x := []float64{1, 2} // k(x,x) = 36.
	// The first weight is the unit of all, whatever it is; the next ones are in it.
	assert.NoError(t, l.Admit(x, 1e9))
	observe(t, l, modeltest.Sample{X: x, Y: 1, Weight: 1})
	assert.NoError(t, l.Admit(x, 1e6/36))
	var field *model.FieldError
	if err := l.Admit(x, 1.01e6/36); !errors.As(err, &field) || field.Field != "weight" || !errors.Is(err, model.ErrWeightOutOfRange) {
		t.Errorf("admitted: %v", err)
	}
	for n, s := range modeltest.Samples(5, 2, 300) {
		s.Y, s.Weight = sign(s.Y), 1e9
		out := observe(t, l, s)
		require.True(t, math.Abs(out.Prediction) <= 2 && out.Loss >= 0, "round %d: %+v", n, out)
	}
	state, err := l.AppendBinary(nil)
	require.NoError(t, err)
	assert.NoError(t, l.Restore(state))
}

// A learner that is full rejects, and says so before.
func TestAFullLearnerRejects(t *testing.T) {
	l := exact(kons.Options{Alpha: 1}, func(o *kons.ExactOptions) { o.Capacity = 7 })
	for n, s := range modeltest.Samples(5, 2, 7) {
		assert.Equal(t, 7-n, l.Remaining(), n)
		observe(t, l, s)
	}
	assert.ErrorIs(t, l.Check([]float64{0, 0}, []float64{1}, 1), model.ErrObservationLimit)
}

// Several outputs are as many learners of one label. Coins are drawn by output, so that
// sketches differ.
func TestOutputsAreLearnersOfTheirOwn(t *testing.T) {
	for name, o := range ways() {
		several := o
		several.Outputs = 3
		for kind, pair := range map[string][2]func() model.Learner{
			"newton": {func() model.Learner { return kons.New(waves(5), several) }, func() model.Learner { return kons.New(waves(5), o) }},
			"grow":   {func() model.Learner { return nystrom(several, nil) }, func() model.Learner { return nystrom(o, nil) }},
			"exact":  {func() model.Learner { return exact(several, nil) }, func() model.Learner { return exact(o, nil) }},
		} {
			all, ones := pair[0](), []model.Learner{pair[1](), pair[1](), pair[1]()}
			var out model.Outcome
			for n, s := range modeltest.Samples(6, 2, 120) {
				labels := []float64{s.Y, -s.Y / 3, math.Cos(9 * s.Y)}
				for j := range labels {
					if o.Loss != losses.Squared {
						labels[j] = sign(labels[j])
					}
				}
				require.NoError(t, all.Observe(&out, s.X, labels, s.Weight))
				loss := 0.0
				for j, l := range ones {
					one, err := modeltest.Observe(l, s.X, labels[j], s.Weight)
					require.NoError(t, err)
					loss += one.Loss
					require.Equal(t, out.Predictions[j], one.Prediction, "%s, %s, round %d, output %d, alone", name, kind, n, j)
				}
				near(t, "loss", out.Loss, loss, 1, 1e-14)
			}
		}
	}
}
