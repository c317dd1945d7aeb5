package auto_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

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
	const learned, asked, every = 4000, 200, 400
	o, rows := options(2, 1), drifting(12_000)
	l, restored := auto.New(o), auto.New(o)
	at := func(l *auto.Learner, r observation, horizon int) model.Prediction {
		p := model.Prediction{Horizon: horizon}
		require.NoError(t, l.Predict(&p, r.x))
		return p
	}
	next, near, ahead, spread, count := 0.0, 0.0, 0.0, 0.0, 0.0
	for n, r := range rows[:len(rows)-asked] {
		if n >= learned && n%every == 0 {
			require.NoError(t, restored.Restore(encoded(t, l)))
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
	err := again.Restore(encoded(t, l))
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
