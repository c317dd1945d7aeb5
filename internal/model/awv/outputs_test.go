package awv_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// A learner of several outputs is so many learners of one that share a factor:
// every figure agrees, and the sums are the sums of theirs.
func TestOutputsAreLearnersThatShareAFactor(t *testing.T) {
	const outputs = 3
	for name, create := range map[string]func(outputs int) model.Learner{
		"taylor": func(k int) model.Learner {
			return awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.5, Outputs: k})
		},
		"taylor, forgetting": func(k int) model.Learner {
			return awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.5, Outputs: k, Forgetting: 0.97})
		},
		"nystrom": func(k int) model.Learner {
			return nystrom(func(o *awv.NystromOptions) { o.Outputs, o.Window = k, 20 })
		},
		"nystrom, forgetting": func(k int) model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Outputs, o.Window, o.Forgetting = k, awv.WholeHistory, 0.97
			})
		},
		"kernel": func(k int) model.Learner {
			return awv.NewKernel(awv.KernelOptions{Kernel: gaussian(1), Dimension: 2, Lambda: 0.5, Outputs: k, Capacity: 200})
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole := create(outputs)
			var single []model.Learner
			for range outputs {
				single = append(single, create(1))
			}
			rng := rand.New(rand.NewPCG(3, 4))
			var p model.Prediction
			var o model.Outcome
			for n, s := range modeltest.Samples(21, 2, 120) {
				y := []float64{s.Y, rng.NormFloat64(), 10 * s.X[0]}
				require.NoError(t, whole.Predict(&p, s.X))
				require.NoError(t, whole.Observe(&o, s.X, y, s.Weight))
				loss, regret := 0.0, 0.0
				for j, l := range single {
					said := must(modeltest.Predict(l, s.X))(t)
					near(t, fmt.Sprint("prediction ", n), p.Values[j], said.Value, 1, 1e-12)
					if len(p.StandardErrors) > 0 {
						near(t, "standard error", p.StandardErrors[j], said.StandardError, 1, 1e-12)
					} else if n > 0 {
						t.Fatalf("round %d: no standard errors", n)
					}
					near(t, "leverage", p.Leverage, said.Leverage, 1, 1e-12)
					out := must(modeltest.Observe(l, s.X, y[j], s.Weight))(t)
					near(t, "prequential prediction", o.Predictions[j], out.Prediction, 1, 1e-12)
					loss, regret = loss+out.Loss, regret+out.Regret
				}
				near(t, "loss", o.Loss, loss, 1, 1e-12)
				near(t, "regret", o.Regret, regret, 1, 1e-10)
			}
			got, unpenalized, bound := whole.Stats(), 0.0, 0.0
			var sum model.Stats
			for _, l := range single {
				s := l.Stats()
				sum.Loss, sum.HindsightLoss, sum.Certificate = sum.Loss+s.Loss, sum.HindsightLoss+s.HindsightLoss, sum.Certificate+s.Certificate
				sum.RegretBound += s.RegretBound
				bound += s.LabelBound * s.LabelBound
				unpenalized += l.Report(model.ReportOptions{}).RegretUnpenalized
			}
			near(t, "loss sum", got.Loss, sum.Loss, 0, 1e-12)
			near(t, "hindsight loss", got.HindsightLoss, sum.HindsightLoss, 0, 1e-10)
			near(t, "certificate", got.Certificate, sum.Certificate, 0, 1e-12)
			near(t, "bound", got.RegretBound, sum.RegretBound, 0, 1e-12)
			near(t, "label bound", got.LabelBound, math.Sqrt(bound), 0, 1e-12)
			near(t, "unpenalized regret", whole.Report(model.ReportOptions{}).RegretUnpenalized, unpenalized, 0, 1e-9)
			near(t, "effective dimension", whole.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension, single[0].Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension, 0, 1e-12)
			assert.True(t, got.CertificateOK, "%+v", got)
		})
	}
}

// A forecaster that forgets follows a function that changes, which one that
// does not forget averages; and a direction that is never seen again keeps its
// ridge, for as long as it may be.
func TestForgettingTracks(t *testing.T) {
	create := func(f float64) model.Learner {
		return awv.New(feature.NewAffine(2), awv.Options{Lambda: 1, Forgetting: f})
	}
	forgets, keeps := create(0.98), create(1)
	rng := rand.New(rand.NewPCG(8, 9))
	late := map[model.Learner]float64{}
	for n := range 100_000 {
		slope := 1.0
		if n/1000%2 == 1 {
			slope = -1
		}
		x := []float64{rng.NormFloat64(), 0} // The second input never says anything.
		for _, l := range []model.Learner{forgets, keeps} {
			out := must(modeltest.Observe(l, x, slope*x[0], 1))(t)
			if n%1000 >= 500 {
				late[l] += out.Loss
			}
		}
	}
	assert.LessOrEqual(t, late[forgets], 0.02*late[keeps], "loss %g with forgetting, %g without", late[forgets], late[keeps])
	p := must(modeltest.Predict(forgets, []float64{0, 1}))(t)
	// Its ridge is between λ/1000 and λ, discounted once more for the prediction.
	q := p.Leverage / (1 - p.Leverage)
	assert.True(t, q >= 1/0.98 && q <= 1000/0.98, "q = %g in a direction never seen", q)
	s := forgets.Stats()
	assert.True(t, s.CertificateOK && !s.Certified && s.Observations == 100_000, "%+v", s)
}

// With the whole history a dictionary that grows predicts as one that was
// there from the start, the ridge of whose coordinates is renewed in the same
// turns: with f = 1 exactly, and with f < 1 up to what the ridge was worth when
// its turn came.
func TestGrowingWhileForgetting(t *testing.T) {
	for _, f := range []float64{1, 0.999} {
		grown := nystrom(func(o *awv.NystromOptions) { o.Window, o.Forgetting, o.Lambda = awv.WholeHistory, f, 1e-3 })
		samples := modeltest.Samples(31, 2, 400)
		for _, s := range samples {
			must(modeltest.Observe(grown, s.X, s.Y, s.Weight))(t)
		}
		// The same centres, in their order, given beforehand.
		given := nystrom(func(o *awv.NystromOptions) { o.Dictionary.Given, o.Forgetting, o.Lambda = grown.Centres(), f, 1e-3 })
		for _, s := range samples {
			must(modeltest.Observe(given, s.X, s.Y, s.Weight))(t)
		}
		within := map[float64]float64{1: 1e-9, 0.999: 1e-2}[f]
		for _, s := range modeltest.Samples(32, 2, 50) {
			a := must(modeltest.Predict(grown, s.X))(t)
			b := must(modeltest.Predict(given, s.X))(t)
			near(t, fmt.Sprint("prediction, f = ", f), a.Value, b.Value, 1, within)
		}
		if m := grown.Stats().Dictionary; m < 5 || m != given.Stats().Dictionary {
			t.Errorf("%d centres grown, %d given", m, given.Stats().Dictionary)
		}
	}
}

// An output that is added late is one from the start whose labels were 0: every
// answer, every figure and the whole state agree in every bit.
func TestALateOutputIsOneFromTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		forgetting float64
		lambdas    []float64
	}{"one ridge": {1, nil}, "forgetting": {0.97, nil}, "three ridges": {1, []float64{0.1, 1, 10}}} {
		t.Run(name, func(t *testing.T) {
			create := func(k int) *awv.Ridges {
				return awv.NewRidges(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.5, Outputs: k, Forgetting: c.forgetting}, c.lambdas)
			}
			late, all := create(1), create(3)
			var o, p model.Outcome
			for n, s := range modeltest.Samples(22, 2, 120) {
				k := min(1+n/40, 3)
				if k > 1 && n%40 == 0 {
					late.AddOutput()
				}
				y := make([]float64, 3)
				y[n%k] = s.Y
				require.NoError(t, late.Observe(&o, s.X, y[:k], s.Weight))
				require.NoError(t, all.Observe(&p, s.X, y, s.Weight))
				require.True(t, o.Loss == p.Loss && o.Regret == p.Regret && slices.Equal(o.Predictions, p.Predictions[:k]), "round %d: %+v, with all outputs %+v", n, o, p)
			}
			assert.True(t, late.Stats() == all.Stats(), "%+v, with all outputs %+v", late.Stats(), all.Stats())
			a := modeltest.State(t, late.Visit)
			assert.Equal(t, modeltest.State(t, all.Visit), a, "another state than with all outputs")
		})
	}
}

// Weights are those of affine features alone, and of so few that it makes sense to
// keep them.
func TestWeightsOfAffineFeaturesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		features feature.Map
		outputs  int
		want     int
	}{
		"affine":          {feature.NewAffine(3), 2, 8},
		"most":            {feature.NewAffine(1<<6 - 1), 1 << 10, 1 << 16},
		"more":            {feature.NewAffine(1 << 6), 1 << 10, 0},
		"other functions": {feature.NewTaylor(3, 1, 1), 2, 0},
	} {
		l := awv.New(c.features, awv.Options{Lambda: 1, Outputs: c.outputs})
		assert.Equal(t, c.want, len(l.Report(model.ReportOptions{}).Weights), name)
	}
}

// Rows predicted from one state get the same answers bit for bit, whatever
// their order, whichever come between, one by one or all at once, and the state
// is as it was.
func TestRowsOfOneStateAreSinglePredictions(t *testing.T) {
	for _, c := range spaces(t) {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(2) {
				l, rng := c.learner(2), rand.New(rand.NewPCG(seed, 91))
				var o model.Outcome
				for n := range 40 {
					require.NoError(t, l.Observe(&o, inputs(rng, n), []float64{rng.NormFloat64(), rng.NormFloat64()}, 1))
				}
				state := modeltest.State(t, l.Visit)
				const rows = 50
				x, single := make([][]float64, rows), make([]string, rows)
				for n := range x {
					x[n] = inputs(rng, n)
					single[n] = answerOf(t, l, x[n])
				}
				for n, x := range slices.Backward(x) {
					require.Equal(t, single[n], answerOf(t, l, x), "seed %d, row %d, at first", seed, n)
				}
				var group sync.WaitGroup
				together := make([]string, rows)
				for n := range x {
					group.Go(func() { together[n] = answerOf(t, l, x[n]) })
				}
				group.Wait()
				assert.True(t, slices.Equal(together, single), "seed %d: predicted at once, rows get other answers", seed)
				assert.True(t, bytes.Equal(state, modeltest.State(t, l.Visit)), "seed %d: predicting changed the state", seed)
			}
		})
	}
}

// answerOf shows every bit of a prediction.
func answerOf(t *testing.T, l model.Learner, x []float64) string {
	t.Helper()
	var p model.Prediction
	assert.NoError(t, l.Predict(&p, x))
	return fmt.Sprintf("%x %x %x", p.Values, p.StandardErrors, p.Leverage)
}

// What is served from one state while labels are on their way is that state's
// own answer: the first of a batch is the prequential prediction, and the last
// is what the learner says that has not seen the others.
func TestLateLabelsDoNotChangeWhatWasServed(t *testing.T) {
	for _, c := range spaces(t) {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 92))
			l := c.learner(1)
			for batch := range 8 {
				copied := c.learner(1)
				require.NoError(t, codec.Read(modeltest.State(t, l.Visit), copied.Visit))
				rows := 1 + rng.IntN(6)
				var x [][]float64
				var served []string
				first := math.NaN()
				for n := range rows {
					x = append(x, inputs(rng, n))
					served = append(served, answerOf(t, l, x[n]))
					if n == 0 {
						p := must(modeltest.Predict(l, x[0]))(t)
						first = p.Value
					}
				}
				for n, x := range x {
					assert.Equal(t, served[n], answerOf(t, copied, x), "batch %d, row %d, served", batch, n)
					out := must(modeltest.Observe(l, x, math.Sin(x[0])+rng.NormFloat64(), 1))(t)
					if n == 0 {
						near(t, fmt.Sprintf("batch %d: prequential prediction", batch), out.Prediction, first, 1, 1e-12)
					}
				}
			}
		})
	}
}
