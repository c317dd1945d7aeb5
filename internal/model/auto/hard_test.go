package auto_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// lateLabels are observations whose labels come three rounds late.
type lateLabels struct {
	rows   []observation
	advice [][]float64
}

// observe teaches a learner the row of three rounds before.
func (w *lateLabels) observe(t *testing.T, l *auto.Learner, n int, r observation) {
	t.Helper()
	p := predict(t, l, r.x)
	w.rows, w.advice = append(w.rows, r), append(w.advice, p.Advice)
	if n < 3 {
		return
	}
	r = w.rows[n-3]
	var o model.Outcome
	require.NoError(t, l.ObserveAdvised(&o, r.x, r.y, r.weight, w.advice[n-3]))
	s := l.Stats()
	said := append(append([]float64{o.Loss, o.Regret, s.Loss, s.Regret, s.HindsightLoss}, p.Values...), o.Predictions...)
	require.False(t, slices.ContainsFunc(said, unbounded), "round %d: %+v, %+v, %+v", n, p, o, s)
	require.True(t, s.CertificateOK && (!s.Certified || n <= 3), "round %d: %+v", n, s)
}

func unbounded(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// sound takes a round through the learner and fails unless all it says is
// finite, predictions are in the range, and its sums hold.
func sound(t *testing.T, l *auto.Learner, n int, r observation, low, high float64) {
	t.Helper()
	p := predict(t, l, r.x)
	o := observe(t, l, r)
	s := l.Stats()
	said := append(append([]float64{
		o.Loss, o.Regret, s.Loss, s.Regret, s.HindsightLoss, s.Certificate, s.RegretBound, s.LabelBound, p.Probability,
	}, p.Advice...), append(p.Values, o.Predictions...)...)
	require.False(t, slices.ContainsFunc(said, unbounded), "round %d: %+v, %+v, %+v", n, p, o, s)
	require.False(t, !s.CertificateOK || s.Regret > s.Certificate || s.Certificate > s.RegretBound || p.Probability < 0 || p.Probability >= 1, "round %d: %+v, %+v", n, p, s)
	for _, v := range append(p.Values, o.Predictions...) {
		require.True(t, n <= 0 || v >= low && v <= high, "round %d: %g is predicted of labels from %g to %g", n, v, low, high)
	}
}

// allowed is the range of predictions after labels: theirs and, after 128 labels, twice beyond
// it where the last three left it.
func allowed(labels []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	above, below := make([]float64, 3), make([]float64, 3)
	for n, y := range labels {
		if n > 0 {
			above, below = append(above[1:], math.Max(0, y-high)), append(below[1:], math.Max(0, low-y))
		}
		low, high = math.Min(low, y), math.Max(high, y)
	}
	if len(labels) >= 128 {
		low, high = low-2*slices.Min(below), high+2*slices.Min(above)
	}
	return low, high
}

// Whatever comes, numbers stay finite, predictions within the range that follows from the
// labels, and the certificate holds.
func TestHardStreams(t *testing.T) {
	normal := func(rng *rand.Rand) []float64 { return []float64{rng.NormFloat64(), rng.NormFloat64()} }
	for name, next := range map[string]func(rng *rand.Rand, n int) observation{
		"constant": func(*rand.Rand, int) observation {
			return observation{x: []float64{3, -7}, y: []float64{0.1}, weight: 1}
		},
		"constant columns": func(rng *rand.Rand, _ int) observation {
			return observation{x: []float64{3, 0}, y: []float64{rng.NormFloat64()}, weight: 1}
		},
		"columns that begin late": func(rng *rand.Rand, n int) observation {
			return observation{x: []float64{3, indicator(n > 1000) * 1e6 * rng.NormFloat64()}, y: []float64{rng.NormFloat64()}, weight: 1}
		},
		"labels that begin late": func(rng *rand.Rand, n int) observation {
			return observation{x: normal(rng), y: []float64{indicator(n > 500) * 1e100 * rng.NormFloat64() / 10}, weight: 1}
		},
		"labels that vanish": func(rng *rand.Rand, n int) observation {
			return observation{x: normal(rng), y: []float64{math.Pow(10, 90-float64(n%190)) * rng.NormFloat64()}, weight: 1}
		},
		"small labels, then huge ones": func(rng *rand.Rand, n int) observation {
			return observation{x: normal(rng), y: []float64{math.Pow(10, 190*indicator(n > 300)-99) * rng.NormFloat64()}, weight: 1}
		},
		"columns of every size": func(rng *rand.Rand, n int) observation {
			x := normal(rng)
			x[0] *= math.Pow(10, float64(n%198)-99)
			return observation{x: x, y: []float64{x[1]}, weight: 1}
		},
		"weights": func(rng *rand.Rand, n int) observation {
			return observation{x: normal(rng), y: []float64{rng.NormFloat64()}, weight: math.Pow(10, float64(n%19)-9)}
		},
		"heavy labels": func(rng *rand.Rand, n int) observation {
			return observation{x: normal(rng), y: []float64{1e100 * (2*rng.Float64() - 1)}, weight: 1e9}
		},
		"duplicates": func(_ *rand.Rand, n int) observation {
			return observation{x: []float64{float64(n / 100 % 2), 1}, y: []float64{float64(n / 100 % 2)}, weight: 1}
		},
		"trend": func(_ *rand.Rand, n int) observation {
			return observation{x: []float64{1.7e9 + float64(n), float64(n)}, y: []float64{float64(n) / 10}, weight: 1}
		},
		"one class": func(rng *rand.Rand, _ int) observation {
			return observation{x: normal(rng), y: []float64{1}, weight: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, rng := auto.NewLevel1(options(2, 1)), rand.New(rand.NewPCG(11, 1))
			var labels []float64
			delayed, late := auto.NewLevel1(options(2, 1)), &lateLabels{}
			for n := range 1500 {
				r := next(rng, n)
				low, high := allowed(labels)
				sound(t, l, n, r, low, high)
				late.observe(t, delayed, n, r)
				labels = append(labels, r.y[0])
			}
		})
	}
}

// A direction that nothing excites keeps its ridge under every forgetting
// factor: after many rounds of one input, another one is learned at once.
func TestForgettingKeepsItsRidge(t *testing.T) {
	l := auto.NewLevel1(options(2, 1))
	rounds := 40_000
	if testing.Short() || modeltest.RaceDetector {
		rounds = 8_000
	}
	for n := range rounds {
		observe(t, l, observation{x: []float64{1, 2}, y: []float64{float64(n % 2)}, weight: 1})
	}
	rng := rand.New(rand.NewPCG(12, 1))
	for n := range 300 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		sound(t, l, n, observation{x: x, y: []float64{indicator(x[0] > x[1])}, weight: 1}, 0, 1)
	}
}

// Any number of inputs and outputs is a model, within its budget as far as
// that goes.
func TestManyColumns(t *testing.T) {
	for _, c := range []struct{ dimension, outputs, experts int }{
		{1, 1, 41}, {20, 1, 41}, {64, 1, 45}, {300, 1, 45}, {1000, 1, 45}, {5000, 1, 43}, {65536, 1, 7}, {3, 40, 41}, {3, 1024, 7},
	} {
		t.Run(fmt.Sprint(c.dimension, " inputs, ", c.outputs, " outputs"), func(t *testing.T) {
			o := auto.Options{Dimension: c.dimension, Outputs: c.outputs, Lags: 2, Frequencies: 50, Microseconds: 500}
			l := auto.NewLevel1(o)
			assert.Equal(t, c.experts, l.Experts())
			cost, most := auto.Level1Cost(o), uint64(0)
			x, y := make([]float64, c.dimension), make([]float64, c.outputs)
			rng := rand.New(rand.NewPCG(13, 1))
			for range 20 {
				for i := range x {
					x[i] = rng.NormFloat64()
				}
				for j := range y {
					y[j] = x[0] + float64(j)
				}
				observe(t, l, observation{x: x, y: y, weight: 1})
				most = max(most, l.Size())
			}
			s := l.Stats()
			assert.True(t, s.CertificateOK && s.Features == cost.Features && most <= cost.StateBytes, "%+v, at most %d bytes, cost %+v", s, most, cost)
		})
	}
}

// Plans get cheaper one by one, and a budget takes the most expensive one that fits, a rich one with a lineup. However many
// categories there are, level 2 has trees.
func TestPlans(t *testing.T) {
	o := defaults(12)
	flops, experts := auto.PlanCosts(o)
	for i := range flops {
		if i > 0 && (flops[i] >= flops[i-1] || experts[i] > experts[i-1]) {
			t.Errorf("plan %d: %d multiply-adds for %d experts, before %d for %d", i, flops[i], experts[i], flops[i-1], experts[i-1])
		}
		o.Microseconds = float64(flops[i]) / 5000
		assert.True(t, auto.Cost(o).ObserveFlops <= flops[i] && (i < 4 || auto.Level1Cost(o).ObserveFlops == flops[i]), "plan %d: %+v", i, auto.Cost(o))
	}
	for categories := 32; categories <= 256; categories += 32 {
		o := defaults(6 + categories)
		o.Joint = []auto.Span{{From: 6, To: 6 + categories}}
		trees := func(e model.Expert) bool { return strings.HasPrefix(e.Name, "trees/") }
		assert.True(t, slices.ContainsFunc(auto.New(o).Report(model.ReportOptions{}).Experts, trees), "%d categories", categories)
	}
}

// The probability of classes is calibrated: its logarithmic loss is that of the
// truth, nearly, and far below that of the share of the classes.
func TestProbability(t *testing.T) {
	l, rng := auto.NewLevel1(options(2, 1)), rand.New(rand.NewPCG(14, 1))
	loss, truth, ignorant, count := 0.0, 0.0, 0.0, 0.0
	for n := range 4000 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		probability, y := 1/(1+math.Exp(-3*x[0]+x[1])), -1.0
		if rng.Float64() < probability {
			y = 1
		}
		p := predict(t, l, x)
		require.True(t, (n == 0) == (p.Probability == 0) && p.Probability >= 0 && p.Probability < 1, "round %d: probability %g", n, p.Probability)
		if n >= 500 {
			log := func(p float64) float64 { return -math.Log(1/2. + y*(p-1/2.)) }
			loss, truth, ignorant, count = loss+log(p.Probability), truth+log(probability), ignorant+math.Ln2, count+1
		}
		observe(t, l, observation{x: x, y: []float64{y}, weight: 1})
	}
	t.Logf("logarithmic loss %.4f, of the truth %.4f, of a coin %.4f", loss/count, truth/count, ignorant/count)
	assert.LessOrEqual(t, loss, 1.1*truth, "logarithmic loss %g, that of the truth %g", loss/count, truth/count)
	observe(t, l, observation{x: []float64{0, 0}, y: []float64{0.5}, weight: 1})
	p := predict(t, l, []float64{0, 0})
	assert.EqualValues(t, 0, p.Probability)
	p = predict(t, auto.NewLevel1(options(2, 2)), []float64{0, 0})
	assert.True(t, p.Probability == 0 && p.Leverage == model.NoLeverage && len(p.StandardErrors) == 0, "%+v", p)
}

// The values of rare amounts have the mean of the amounts, though they are cut at 0, and the certificate holds.
func TestRareAmountsHaveTheirMean(t *testing.T) {
	said, labels, sign := 0.0, 0.0, 1.0
	for seed := range uint64(3) {
		l, rng := auto.New(options(3, 1)), rand.New(rand.NewPCG(2, 7+seed))
		cut := 0
		for range 3000 {
			r := observation{x: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, y: []float64{0}, weight: 1}
			if rng.Float64() < 0.03*math.Exp(1.2*r.x[0]+0.8*r.x[1]-1) {
				r.y[0] = sign * 100 * rng.ExpFloat64()
			}
			p := predict(t, l, r.x).Values[0]
			if said, labels = said+sign*p, labels+sign*r.y[0]; p == 0 {
				cut++
			}
			observe(t, l, r)
			require.True(t, sign*p >= 0 && l.Stats().CertificateOK, "%d: %g, %+v", seed, p, l.Stats())
		}
		assert.Greater(t, cut, 100, "%d: few values are cut", seed)
		sign = -sign
	}
	assert.InDelta(t, 1, said/labels, 0.1)
}
