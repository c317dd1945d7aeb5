package classifier_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/scaling"
)

// A class that appears late is one from the start, bit for bit, behind every scaling:
// in the middle of a warm-up, while its learner catches up, and after it.
func TestALateClassIsOneFromTheStartThroughScaling(t *testing.T) {
	o := options()
	for name, s := range map[string]scaling.Options{
		"running": {Warmup: 32, Running: true}, "warm-up": {Warmup: 20}, "long warm-up": {Warmup: 70},
		"fixed": {Fixed: scaling.Affine{Offset: []float64{1, 0, -1}, Scale: []float64{1, 2, 0.5}, LabelScale: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			create := func(outputs int) *scaling.Learner {
				s := s
				s.Dimension, s.Outputs, s.InputLimit, s.Forgetting = dimension, outputs, model.MaxMagnitude, 1
				s.Fixed.LabelOffset = make([]float64, outputs)
				s.New = o.forecaster(feature.NewAffine(dimension))
				return scaling.New(s)
			}
			l := classifier.New(o.options(func(outputs int) model.Learner { return create(outputs) }))
			all := samples(14, 200)
			const classes = 6
			f := create(classes)
			var want model.Prediction
			var out model.Outcome
			var got model.ClassOutcome
			for n, s := range all {
				require.NoError(t, f.Predict(&want, s.X))
				p, known := predict(t, l, s.X), len(l.Classes())
				require.True(t, fmt.Sprint(p.Values) == fmt.Sprint(want.Values[:known]), "round %d: %v, want %v", n, p.Values, want.Values)
				require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, nil))
				y := make([]float64, classes)
				y[got.Class] = 1
				require.NoError(t, f.Observe(&out, s.X, y, s.Weight))
				same := got.Regret == out.Regret || math.IsNaN(got.Regret) && math.IsNaN(out.Regret)
				require.True(t, got.Loss == out.Loss && same && fmt.Sprint(got.Prediction.Values) == fmt.Sprint(out.Predictions[:known]), "round %d: %+v, want %+v", n, got, out)
				require.True(t, len(l.Classes()) != classes || bytes.HasSuffix(encoded(t, l), encoded(t, f)), "round %d: the learner is another", n)
				if l.Stats().Loss != f.Stats().Loss {
					t.Fatalf("round %d: %+v, want %+v", n, l.Stats(), f.Stats())
				}
			}
			require.Len(t, l.Classes(), classes)
		})
	}
}

// without is a spec of one real label.
func without(t *testing.T, spec model.Spec) model.Learner {
	t.Helper()
	spec.Classes = nil
	if spec.Auto != nil {
		spec.LabelGate = model.GateOff // A classifier has none.
	}
	l, err := catalog.New(spec)
	require.NoError(t, err)
	return l
}

// unscaled are the learners, of labels as they are.
func unscaled(loss string) map[string]model.Spec {
	none := model.Unscaled()
	specs := map[string]model.Spec{
		"fogd":      {Scaling: none, FOGD: &model.FOGD{FirstOrder: firstOrder(loss)}},
		"raker":     {Scaling: none, Raker: &model.Raker{FirstOrder: firstOrder(loss)}},
		"ada_raker": {Scaling: none, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: firstOrder(loss)}}},
	}
	if loss != model.LossSquared {
		return specs
	}
	specs["linear_awv"] = model.Spec{Scaling: none, LinearAWV: &model.LinearAWV{}}
	specs["linear_awv, warm-up"] = model.Spec{
		Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 40, Labels: ptr(false)}}, LinearAWV: &model.LinearAWV{},
	}
	specs["fourier_awv"] = model.Spec{Scaling: none, FourierAWV: &model.FourierAWV{Frequencies: ptr(6), Forgetting: ptr(0.98)}}
	specs["pkawv_taylor"] = model.Spec{Scaling: none, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}}
	specs["pkawv_nystrom"] = model.Spec{Scaling: none, PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(20)}}
	specs["kernel_awv"] = model.Spec{Scaling: none, KernelAWV: &model.KernelAWV{}}
	specs["auto"] = model.Spec{Auto: &model.Auto{Frequencies: ptr(4), MaxMicroseconds: ptr(20.0)}}
	return specs
}

// Two classes are what the learner says of labels -1 and 1, bit for bit: its values,
// losses and regrets, and the class is the sign, unless auto's level of log loss decides. A label that comes late, with the advice
// of its prediction, too.
func TestTwoClassesAreTheSign(t *testing.T) {
	for _, loss := range []string{model.LossSquared, model.LossLogistic, model.LossHinge} {
		for name, spec := range unscaled(loss) {
			t.Run(loss+"/"+name, func(t *testing.T) {
				spec = of(2, spec)
				l, plain := create(t, spec), without(t, spec)
				var got model.ClassOutcome
				var want model.Outcome
				var late struct {
					s           sample
					class       float64
					advice, raw []float64
				}
				for n, s := range modeltest.ClassSamples(19, dimension, 2, 250) {
					p := predict(t, l, s.X)
					var raw model.Prediction
					require.NoError(t, plain.Predict(&raw, s.X))
					if fmt.Sprint(p.Values, p.StandardErrors, p.Leverage, p.Advice[:len(raw.Advice)]) != fmt.Sprint(raw.Values, raw.StandardErrors, raw.Leverage, raw.Advice) {
						t.Fatalf("round %d: %+v, want %+v", n, p, raw)
					}
					require.True(t, name == "auto" || len(p.Classes) != 2 || (p.Class == 1) == (raw.Values[0] > 0), "round %d: class %d of %v", n, p.Class, raw.Values)
					y := 1.0
					if s.Class == "class 0" {
						y = -1
					}
					advice, rawAdvice := p.Advice, raw.Advice
					if n%5 == 2 && n > 20 { // This one comes later, the one before now.
						late.s, s = s, late.s
						late.class, y = y, late.class
						late.advice, advice = slices.Clone(advice), late.advice
						late.raw, rawAdvice = slices.Clone(rawAdvice), late.raw
					}
					if s.X == nil {
						continue
					}
					require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, advice))
					observe := func() error { return plain.Observe(&want, s.X, []float64{y}, s.Weight) }
					if advised, ok := plain.(model.Advised); ok && advice != nil {
						observe = func() error { return advised.ObserveAdvised(&want, s.X, []float64{y}, s.Weight, rawAdvice) }
					}
					require.NoError(t, observe())
					same := got.Regret == want.Regret || math.IsNaN(got.Regret) && math.IsNaN(want.Regret)
					require.True(t, got.Prediction.Values[0] == want.Predictions[0] && got.Loss == want.Loss && same, "round %d: %+v, want %+v", n, got, want)
					require.Equal(t, lossOf(plain, raw.Values[0], y), l.LossOfClass(raw.Values, got.Class), "round %d: a loss", n)
				}
				assert.True(t, bytes.HasSuffix(encoded(t, l), encoded(t, plain)), "the learner is another")
			})
		}
	}
}

func lossOf(l model.Learner, prediction, label float64) float64 {
	if scored, ok := l.(model.Scored); ok {
		return scored.LossOf(prediction, label)
	}
	return (prediction - label) * (prediction - label)
}

// More classes are as many learners, each of the labels of its class against all others,
// over the same features: for the first-order learners bit for bit, for the others to
// rounding. The class is the one of the largest prediction.
func TestMoreClassesAreLearnersOneAgainstTheRest(t *testing.T) {
	const classes = 4
	for _, loss := range []string{model.LossSquared, model.LossLogistic, model.LossHinge} {
		for name, spec := range unscaled(loss) {
			if name == "auto" || name == "pkawv_nystrom" {
				continue // What they learn of the inputs depends on the labels of all.
			}
			t.Run(loss+"/"+name, func(t *testing.T) {
				tolerance := 1e-11
				if spec.FOGD != nil || spec.Raker != nil || spec.AdaRaker != nil {
					tolerance = 0
				}
				spec = of(classes, spec)
				l := create(t, spec)
				var each []model.Learner
				for range classes {
					each = append(each, without(t, spec))
				}
				var got model.ClassOutcome
				var want model.Outcome
				for n, s := range modeltest.ClassSamples(20, dimension, classes, 250) {
					require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, nil))
					best, largest, sum := model.NoClass, math.Inf(-1), 0.0
					for k, one := range each {
						y := -1.0
						if k == got.Class {
							y = 1
						}
						require.NoError(t, one.Observe(&want, s.X, []float64{y}, s.Weight))
						v := got.Prediction.Values[k]
						require.False(t, math.Abs(v-want.Predictions[0]) > tolerance*(1+math.Abs(v)), "round %d, class %d: %.17g, want %.17g", n, k, v, want.Predictions[0])
						sum += want.Loss
						if k < len(got.Prediction.Classes) && v > largest {
							best, largest = k, v
						}
					}
					require.Equal(t, best, got.Prediction.Class, "round %d: class of %v", n, got.Prediction.Values)
					require.False(t, math.Abs(got.Loss-sum) > 1e-10*(1+sum), "round %d: a loss of %g, want %g", n, got.Loss, sum)
				}
				if s := l.Stats(); s.Certified {
					summed := 0.0
					for _, one := range each {
						summed += one.Stats().RegretBound
					}
					near(t, "bound", s.RegretBound, summed, 1e-9)
				}
			})
		}
	}
}

// What an inner learner can besides, a classifier can: a limit of observations, and
// rejecting what spoils it.
func TestLimitsOfTheLearner(t *testing.T) {
	spec := of(3, model.Spec{Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(5)}})
	l := create(t, spec)
	bounded, isBounded := l.(model.Bounded)
	admitter, isAdmitter := l.(model.Admitter)
	require.True(t, isBounded && isAdmitter, "the limits of the learner are lost")
	all := samples(21, 6)
	for n, s := range all[:5] {
		require.Equal(t, 5-n, bounded.Remaining(), n)
		learn(t, l, []sample{s})
	}
	assert.Error(t, l.CheckClass(all[5].X, all[5].Class, 1), "an observation too many is accepted")
	plain := without(t, spec)
	got, want := admitter.Admit(all[0].X, 1e9), plain.(model.Admitter).Admit(all[0].X, 1e9)
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "admitted: %v, want %v", got, want)
	assert.EqualValues(t, math.MaxInt, create(t, of(2, model.Spec{LinearAWV: &model.LinearAWV{}})).(model.Bounded).Remaining())
}
