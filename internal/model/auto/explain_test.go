package auto_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/regret"
)

// explained is a learner that explains itself.
type explained interface {
	model.Learner
	model.Explaining
}

func explainers(o auto.Options) map[string]explained {
	keyed := o
	keyed.Keys = []auto.Key{{Feature: 1}, {Feature: 2}}
	return map[string]explained{
		"first": auto.NewLevel1(o), "second": auto.New(o), "first with keys": auto.NewLevel1(keyed), "second with keys": auto.New(keyed),
	}
}

// The contributions of all families are the prediction, their weights 1, at every stage. What
// is neither an expert's nor a cut is small once stacks have learned.
func TestExplanationsAddUp(t *testing.T) {
	o := auto.Options{Dimension: 3, Outputs: 2, Lags: 1, Frequencies: 8, Microseconds: 500}
	for name, l := range explainers(o) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			var p model.Prediction
			var out model.Outcome
			rest, size := 0.0, 0.0
			for row := range 1200 {
				x := []float64{rng.Float64(), rng.Float64(), rng.NormFloat64()}
				y := []float64{math.Sin(6*x[0]) + x[2], math.Floor(3 * x[1])}
				require.NoError(t, l.Predict(&p, x))
				sums, total := make([]float64, 2), make([]float64, 2)
				for _, part := range l.Explain(&p) {
					for j := range 2 {
						sums[j] += part.Weights[j]
						total[j] += part.Contributions[j]
					}
					if part.Family == "rest" && row >= 600 {
						rest, size = rest+math.Abs(part.Contributions[0]), size+math.Abs(p.Values[0])
					}
				}
				for j := range 2 {
					require.False(t, math.Abs(total[j]-p.Values[j]) > 1e-9 || (row > 0 && math.Abs(sums[j]-1) > 1e-9), "row %d: contributions of %g in %g, weights of %g", row, total[j], p.Values[j], sums[j])
				}
				require.NoError(t, l.Observe(&out, x, y, 1))
			}
			assert.True(t, rest < 0.1*size, "the rest is %g of %g", rest, size)
			for _, family := range l.Report(model.ReportOptions{}).Families {
				t.Logf("%s %.3f", family.Family, family.Weights)
			}
		})
	}
}

// Trees learn steps that nothing else learns, and what the label depends on matters.
func TestWhatMatters(t *testing.T) {
	o := auto.Options{
		Dimension: 7, Outputs: 1, Lags: 1, Frequencies: 8, Microseconds: 500,
		Joint: []auto.Span{{From: 2, To: 5}}, Cycles: []int{5},
	}
	l := auto.New(o)
	rng := rand.New(rand.NewPCG(1, 3))
	var out model.Outcome
	for range 3000 {
		category, angle := rng.IntN(3), 2*math.Pi*rng.Float64()
		x := []float64{rng.Float64(), rng.Float64(), 0, 0, 0, math.Sin(angle), math.Cos(angle)}
		x[2+category] = 1
		y := 3*math.Floor(4*x[0]) + float64(category*category)
		require.NoError(t, l.Observe(&out, x, []float64{y}, 1))
	}
	r := l.Report(model.ReportOptions{Importances: true})
	weights := map[string]float64{}
	for _, f := range r.Families {
		weights[f.Family] = f.Weights[0]
	}
	assert.GreaterOrEqual(t, weights["trees"], 0.5, "trees have the weight %g of %v", weights["trees"], weights)
	gains, gain := map[string]model.Importance{}, 0.0
	for _, i := range r.Importances {
		gains[fmt.Sprintf("%d-%d%s", i.From, i.To, i.Name)] = i
		gain += i.Gain
	}
	t.Log(r.Importances)
	assert.True(t, math.Abs(gain-1) <= 1e-9 && len(r.Importances) == 6, "gains of %g, %v", gain, r.Importances)
	inputs := []string{"0-1", "1-2", "2-5", "5-7"}
	for _, what := range inputs {
		i, matters := gains[what], what == inputs[0] || what == inputs[2]
		assert.Equal(t, []bool{matters, matters}, []bool{i.Permutation > 0.05, i.Gain > 0.05}, "%s: %+v", what, i)
	}
	assert.Nil(t, l.Report(model.ReportOptions{}).Importances)
	assert.True(t, slices.ContainsFunc(r.Importances, func(i model.Importance) bool { return i.Name == model.PastLabels }), "no past labels among %v", r.Importances)
}

// The recent regret is against the best ridge function of the best map, which a dense system finds on the
// naive learner's features of these rows alone.
func TestRecentRegretIsAgainstTheBestMap(t *testing.T) {
	const rounds, outputs = 260, 2
	o := auto.Options{Dimension: 2, Outputs: outputs, Lags: 1, Frequencies: 4, Microseconds: 1e6, Seed: 9}
	l, n := auto.NewLevel1(o), newNaive(o)
	rng, last := rand.New(rand.NewPCG(1, 2)), 0.0
	var rows regret.Rows
	var out model.Outcome
	var features [][5][]float64
	var labels [][]float64
	var weights, losses []float64
	for range rounds {
		x, weight := []float64{100 + 7*rng.NormFloat64(), rng.Float64()}, math.Exp(rng.NormFloat64())
		last = 0.8*last + math.Sin(5*x[1]) + 0.3*rng.NormFloat64()
		y := []float64{last, 10*last + x[0]}
		features = append(features, [5][]float64{})
		if len(n.rows) >= 128 {
			features[len(n.rows)] = n.allFeatures(n.columns(x, n.lags()))
		}
		n.observe(x, y, weight, n.foresee(x))
		rows.Begin(l, x)
		require.NoError(t, l.Observe(&out, x, y, weight))
		rows.End(l, x, y, weight, out.Loss)
		labels, weights, losses = append(labels, y), append(weights, weight), append(losses, out.Loss)
	}
	windows := rows.Windows(rounds, func() {})
	count := len(windows)
	require.True(t, count == 5 && windows[0].Rounds == 16 && windows[3].Rounds == 128 && windows[4].Rounds == rounds-128, "windows %+v", windows)
	for _, w := range windows {
		loss, least, energy := 0.0, 0.0, 0.0
		for j := range outputs {
			best := math.Inf(1)
			offset, scale := n.units.offset[j], n.units.scale[j]
			for kind := range features[rounds-1] {
				d := newDense(kind, len(features[rounds-1][kind]), 1, 0.01, 1)
				squares := 0.0
				for i := rounds - w.Rounds; i < rounds; i++ {
					y := (labels[i][j] - offset) / scale
					d.learn(features[i][kind], []float64{y}, weights[i])
					squares += weights[i] * y * y
				}
				b := d.b[0]
				for i, v := range solve(d.a, b) {
					squares -= v * b[i]
				}
				best = math.Min(best, squares*scale*scale)
			}
			least += best
		}
		for i := rounds - w.Rounds; i < rounds; i++ {
			loss += losses[i]
			for _, y := range labels[i] {
				energy += weights[i] * y * y
			}
		}
		assert.True(t, math.Abs(w.Regret()-(loss-least)) <= 1e-9*energy, "last %d: regret %.12g, want %.12g", w.Rounds, w.Regret(), loss-least)
	}
}

// drifting are n observations of a step of the first input and of noise that the next labels repeat in
// part.
func drifting(n int) []observation {
	rng, noise := rand.New(rand.NewPCG(37, 4)), 0.0
	rows := make([]observation, n)
	for i := range rows {
		x := []float64{rng.Float64(), rng.NormFloat64()}
		noise = 0.9*noise + 0.3*rng.NormFloat64()
		rows[i] = observation{x: x, y: []float64{math.Floor(4*x[0]) + noise}, weight: 1}
	}
	return rows
}

// A learner that learned all labels at once says of rows far ahead less of the newest labels, and knows
// how far its errors grow. Predictions without a horizon stay as they are.
func TestPredictionsAhead(t *testing.T) {
	if !modeltest.Long() {
		t.Skip("learns 12,000 rows: make test-e2e runs it")
	}
	const learned, asked, every = 4000, 200, 400
	o, rows := options(2, 1), drifting(12_000)
	l := auto.New(o)
	at := func(l *auto.Learner, r observation, horizon int) model.Prediction {
		p := model.Prediction{Horizon: horizon}
		require.NoError(t, l.Predict(&p, r.x))
		return p
	}
	next, near, ahead, spread, count := 0.0, 0.0, 0.0, 0.0, 0.0
	for n, r := range rows[:len(rows)-asked] {
		if n >= learned && n%every == 0 {
			restored := auto.New(o)
			require.NoError(t, codec.Read(encoded(t, l), restored.Visit))
			for h, r := range rows[n+64 : n+asked] {
				far := at(l, r, 64+h)
				other := at(restored, r, 64+h)
				require.True(t, other.Values[0] == far.Values[0] && other.Spread == far.Spread, "row %d: restored, it predicts %+v, want %+v", n+h, other, far)
				near += math.Abs(at(l, r, 0).Values[0] - r.y[0])
				ahead += math.Abs(far.Values[0] - r.y[0])
				spread += far.Spread
				count++
			}
		}
		out := observe(t, l, r)
		if n >= learned {
			next += math.Abs(out.Predictions[0] - r.y[0])
		}
	}
	next, near, ahead, spread = next/float64(len(rows)-asked-learned), near/count, ahead/count, spread/count
	t.Logf("mean errors: %.3g of the next row, %.3g ahead, %.3g as if next; spread %.3g", next, ahead, near, spread)
	assert.True(t, ahead < 0.9*near, "ahead the error is %.3g, as if each row were the next %.3g", ahead, near)
	grown := ahead / next
	assert.True(t, spread > 0.75*grown && spread < 1.25*grown, "a spread of %.3g, the errors grow by %.3g", spread, grown)
}

// Labels that come late leave predictions without a horizon to the levels, which have learned with
// the delay, and the state of the buckets is that of a restored learner.
func TestPredictionsAheadOfLateLabels(t *testing.T) {
	const late = 30
	o, rows := options(2, 1), drifting(3000)
	l := auto.New(o)
	var advice [][]float64
	for n, r := range rows {
		p := predict(t, l, r.x)
		require.LessOrEqual(t, p.Spread, 1.0, "row %d: a spread of %g", n, p.Spread)
		if advice = append(advice, p.Advice); n < late {
			continue
		}
		var out model.Outcome
		r := rows[n-late]
		require.NoError(t, l.ObserveAdvised(&out, r.x, r.y, r.weight, advice[n-late]))
	}
	again := auto.New(o)
	err := codec.Read(encoded(t, l), again.Visit)
	require.True(t, err == nil && bytes.Equal(encoded(t, again), encoded(t, l)), "restored, the state differs: %v", err)
	p := model.Prediction{Horizon: 300}
	err = l.Predict(&p, rows[0].x)
	assert.True(t, err == nil && p.Spread > 0.5 && p.Spread < 2, "300 rows ahead of labels 30 rows late: a spread of %g, %v", p.Spread, err)
}

// After a few hundred rows the spread of a walk grows with the horizon, and one label that is late for
// once does not change it. The parts of a prediction ahead sum to its value.
func TestPredictionsAheadOfAWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	o, y := options(2, 1), 0.0
	l := auto.New(o)
	var old []float64
	row := func() observation {
		y += rng.NormFloat64()
		return observation{x: []float64{rng.NormFloat64(), rng.NormFloat64()}, y: []float64{y}, weight: 1}
	}
	for n := range 1300 {
		r := row()
		if n == 1000 {
			old = predict(t, l, r.x).Advice
		}
		observe(t, l, r)
	}
	x := []float64{0.1, 0.2}
	spreads := func() (all []float64) {
		for _, horizon := range []int{0, 2, 10, 40, 100, 400, math.MaxUint32} {
			p := model.Prediction{Horizon: horizon}
			require.NoError(t, l.Predict(&p, x))
			all = append(all, p.Spread)
			sum := 0.0
			for _, part := range l.Explain(&p) {
				sum += part.Contributions[0]
			}
			assert.True(t, math.Abs(sum-p.Values[0]) <= 1e-9*(1+math.Abs(sum)), "%d rows ahead: the parts sum to %g, want %g", horizon, sum, p.Values[0])
		}
		return all
	}
	before := spreads()
	assert.True(t, slices.IsSorted(before) && before[0] == 1 && before[5] > 4 && before[6] == before[5], "spreads %.3g, want them to grow from 1", before)
	var out model.Outcome
	r := row()
	require.NoError(t, l.ObserveAdvised(&out, r.x, r.y, 1, old))
	after := spreads()
	assert.True(t, after[5] > before[5]/2, "after one late label the spreads are %.3g, before %.3g", after, before)
}
