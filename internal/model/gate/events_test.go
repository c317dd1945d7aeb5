package gate_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/gate"
	"hindsight/internal/model/modeltest"
)

// skill takes rows through a learner: 1 − its loss/that of the mean label.
func skill(t *testing.T, l model.Learner, seed uint64, rows int, draw func(rng *rand.Rand, row int) (x []float64, y float64)) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	loss, sum, squares := 0.0, 0.0, 0.0
	for row := range rows {
		x, y := draw(rng, row)
		o, err := modeltest.Observe(l, x, y, 1)
		require.NoError(t, err)
		loss, sum, squares = loss+o.Loss, sum+y, squares+y*y
	}
	return 1 - loss/(squares-sum*sum/float64(rows))
}

// flagged are labels 0 ± .001 with 1 % ones, at which an input is near 1 and else near 0.
func flagged(rng *rand.Rand, _ int) (x []float64, y float64) {
	if rng.Float64() < 0.01 {
		y = 1
	}
	return []float64{rng.Float64(), y + 0.15*rng.NormFloat64()}, y + 0.001*rng.NormFloat64()
}

// Events that inputs foretell are learned, at about the price that they have without a gate.
func TestEventsAreLearned(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	rows, draws := 5000, uint64(1)
	if *whole {
		rows, draws = 8000, 4
	}
	for seed := range draws {
		l, o := gated(options(2)), level1(options(2))
		with, without := skill(t, l, seed, rows, flagged), skill(t, auto.New(o), seed, rows, flagged)
		s := l.Stats()
		t.Logf("skill %.3f, without a gate %.3f; %d set aside, the last at %d", with, without, s.Gate.SetAside, s.Gate.LastSetAside)
		assert.False(t, with < 0.8 || s.Gate.SetAside < 2 || s.Gate.LastSetAside > 1000 || !s.CertificateOK || s.Gate.SetAsideLoss != 0, "skill %g, want at least .8; %+v", with, s)
	}
}

// Events of several shapes are let in: a category, a range, a corner.
func TestEventsOfSeveralShapes(t *testing.T) {
	shapes := map[string]func(x []float64) bool{
		"high":     func(x []float64) bool { return x[0] > 0.98 },
		"low":      func(x []float64) bool { return x[1] < 0.02 },
		"middle":   func(x []float64) bool { return x[2] > 0.49 && x[2] < 0.51 },
		"category": func(x []float64) bool { return int(100*x[0]) == 57 },
		"corner":   func(x []float64) bool { return x[0] > 0.86 && x[1] > 0.86 },
	}
	for name, is := range shapes {
		l, _ := recorded(3, 1)
		skill(t, l, 1, 20000, func(rng *rand.Rand, _ int) ([]float64, float64) {
			x, y := []float64{rng.Float64(), rng.Float64(), rng.Float64()}, 0.001*rng.NormFloat64()
			if is(x) {
				y++
			}
			return x, y
		})
		s := l.Stats().Gate
		assert.True(t, s.LastSetAside <= 5000, "%s: %+v", name, s)
	}
}

// Errors that come at any input are set aside to the end, also where the inputs drift and
// come back. By Ville's inequality one run in 280 at most lets them in.
func TestErrorsAtAnyInputAreSetAside(t *testing.T) {
	walk, drift := 0.0, 0.0
	streams := map[string]func(rng *rand.Rand, row int) []float64{
		"drawn":   func(rng *rand.Rand, _ int) []float64 { return []float64{rng.Float64(), rng.NormFloat64()} },
		"clock":   func(_ *rand.Rand, row int) []float64 { return []float64{float64(row), float64(row % 24)} },
		"walking": func(rng *rand.Rand, _ int) []float64 { walk += rng.NormFloat64(); return []float64{walk} },
		"slow": func(rng *rand.Rand, _ int) []float64 {
			drift = 0.99*drift + rng.NormFloat64()
			return []float64{drift, rng.Float64()}
		},
	}
	runs := 25
	if *whole {
		runs = 500
	}
	for name, input := range streams {
		opened := 0
		for seed := range uint64(runs) {
			l, _ := recorded(len(input(rand.New(rand.NewPCG(1, 1)), 0)), 1)
			errors := 0
			skill(t, l, seed, 4000, func(rng *rand.Rand, row int) ([]float64, float64) {
				x, y := input(rng, row), rng.NormFloat64()
				if rng.Float64() < 0.01 {
					y, errors = -9999, errors+1
				}
				return x, y
			})
			if int(l.Stats().Gate.SetAside) < errors-6 {
				opened++
			}
		}
		if *whole {
			t.Logf("%s: let in in %d of %d runs", name, opened, runs)
		}
		assert.True(t, opened <= 1+runs/100, "%s: let in in %d of %d runs", name, opened, runs)
	}
}

// Rare amounts that no input foretells are learned: the mean prediction is the mean label.
func TestRareAmountsAreLearned(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	const rows = 12000
	amounts := map[string]func(rng *rand.Rand) float64{
		"exponential": func(rng *rand.Rand) float64 { return 15 * rng.ExpFloat64() },
		"lognormal":   func(rng *rand.Rand) float64 { return 10 * math.Exp(0.8*rng.NormFloat64()) },
		"round":       func(rng *rand.Rand) float64 { return float64(5 * (1 + rng.IntN(12))) },
		"three":       func(rng *rand.Rand) float64 { return float64(10 * (1 + rng.IntN(3))) },
	}
	learners := map[string]func() model.Learner{
		"auto": func() model.Learner {
			o := options(2)
			o.Lags, o.Frequencies = 1, 3
			return versions()[1].gated(o)
		},
		"linear": func() model.Learner {
			l, err := catalog.New(model.Spec{Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
			require.NoError(t, err)
			return l
		},
	}
	for learner, start := range learners {
		for name, amount := range amounts {
			for _, share := range []float64{0.02, 0.03} {
				for _, noise := range []float64{0, 0.001} {
					// Three amounts beside noise are sentinels. Auto learns the amounts with the heaviest tail alone.
					if name == "three" && noise > 0 || learner == "auto" && (name != "lognormal" || noise > 0 || share > 0.02) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%g/%g", learner, name, share, noise), func(t *testing.T) {
						t.Parallel()
						rng, l := rand.New(rand.NewPCG(3, 12)), start()
						predicted, truth := 0.0, 0.0
						for row := range rows {
							y := noise * rng.NormFloat64()
							if rng.Float64() < share {
								y += amount(rng)
							}
							o, err := modeltest.Observe(l, []float64{rng.Float64(), rng.NormFloat64()}, y, 1)
							require.NoError(t, err)
							if row >= rows/4 {
								predicted, truth = predicted+o.Prediction, truth+y
							}
						}
						s := l.Stats()
						t.Logf("%.3f of the mean label; %+v", predicted/truth, s.Gate)
						ratio := predicted / truth
						assert.True(t, ratio > 0.9 && ratio < 1.1 && s.CertificateOK, "mean prediction %.3f of the mean label, want .9 to 1.1; %+v", ratio, s)
					})
				}
			}
		}
	}
}

// A few values that come again and again beside other labels are sentinels.
func TestSentinelsAreNoDistribution(t *testing.T) {
	for _, sentinels := range [][]float64{{-999}, {-9999, -999}, {9999}, {-99, -999, 999}} {
		l, _ := recorded(2, 1)
		rng, sent := rand.New(rand.NewPCG(5, 13)), uint64(0)
		var o model.Outcome
		for row := range 10000 {
			y := rng.NormFloat64()
			if row%71 == 70 {
				y = sentinels[rng.IntN(len(sentinels))]
				sent++
			}
			require.NoError(t, l.Observe(&o, []float64{rng.Float64(), rng.NormFloat64()}, []float64{y}, 1))
		}
		assert.Equal(t, sent, l.Stats().Gate.SetAside, sentinels)
	}
}

// recorder is a learner that predicts 0 and remembers the labels that it learned.
type recorder struct {
	outputs int
	labels  [][]float64
}

func (r *recorder) Predict(p *model.Prediction, _ []float64) error {
	p.Resize(r.outputs)
	clear(p.Values)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	return nil
}

func (r *recorder) Check(_, y []float64, weight float64) error {
	if err := model.CheckLabels(y, r.outputs); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

func (r *recorder) Observe(o *model.Outcome, _, y []float64, weight float64) error {
	o.Resize(r.outputs)
	clear(o.Predictions)
	o.Loss, o.Regret = 0, 0
	for _, v := range y {
		o.Loss += weight * v * v
	}
	r.labels = append(r.labels, slices.Clone(y))
	return nil
}

func (r *recorder) Stats() model.Stats {
	return model.Stats{Observations: uint64(len(r.labels)), Certified: true, CertificateOK: true}
}

func (r *recorder) Size() uint64                            { return 8 }
func (r *recorder) Report(model.ReportOptions) model.Report { return model.Report{} }
func (r *recorder) Restore([]byte) error                    { return nil }
func (r *recorder) AppendBinary(dst []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(len(r.labels))), nil
}

// recorded is a gate before recorders. The newest one is what now answers.
func recorded(dimension, outputs int) (l *gate.Learner, now func() *recorder) {
	var newest *recorder
	l = gate.New(gate.Options{Dimension: dimension, Outputs: outputs, New: func() model.Learner {
		newest = &recorder{outputs: outputs}
		return newest
	}})
	return l, func() *recorder { return newest }
}

// options are those of auto with its defaults.
func options(dimension int) auto.Options {
	return auto.Options{Dimension: dimension, Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}
}

// level1 is a smaller budget, without room for level 2.
func level1(o auto.Options) auto.Options {
	const opening = 3 // The most numbers that the opening adds to the advice of an output.
	for {
		sizes := auto.AdviceSizes(o)
		if slices.Max(sizes)-sizes[0] <= opening*o.Outputs {
			return o
		}
		o.Microseconds--
	}
}

// version makes auto with as many levels, and a gate before that learner.
type version struct {
	name string
	// level1 leaves no room for level 2.
	level1 bool
	// full is the row after which the state of the version has its full size, 0 if it always has.
	full int
}

// versions are auto without and with level 2.
func versions() []version { return []version{{"level 1", true, 0}, {"level 2", false, 8500}} }

func (v version) options(o auto.Options) auto.Options {
	if v.level1 {
		return level1(o)
	}
	return o
}

func (v version) auto(o auto.Options) model.Learner { return auto.New(v.options(o)) }

func (v version) gated(o auto.Options) *gate.Learner {
	return v.before(o, func() model.Learner { return v.auto(o) })
}

// before returns a gate whose learners the function learner makes.
func (v version) before(o auto.Options, learner func() model.Learner) *gate.Learner {
	return gate.New(gate.Options{Dimension: o.Dimension, Outputs: o.Outputs, Advice: auto.AdviceSizes(v.options(o)), New: learner})
}

// gated is auto without level 2 behind a gate.
func gated(o auto.Options) *gate.Learner { return versions()[0].gated(o) }
