package auto_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/regret"
)

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
		n.observe(x, y, weight, n.predict(x, n.lags()))
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
		if math.Abs(w.Regret()-(loss-least)) > 1e-9*energy {
			t.Errorf("last %d: regret %.12g, want %.12g", w.Rounds, w.Regret(), loss-least)
		}
	}
}
