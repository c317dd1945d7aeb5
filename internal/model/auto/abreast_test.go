package auto_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// Inputs that are predicted together have the predictions of one by one, bit for bit, at every stage,
// with keys, several outputs, many inputs and rows ahead.
func TestPredictAllIsOneByOne(t *testing.T) {
	two, keyed, many := defaults(3), defaults(4), defaults(90)
	two.Outputs = 2
	keyed.Keys = []auto.Key{{Feature: 3}}
	for name, o := range map[string]auto.Options{"two outputs": two, "keys": keyed, "screened": many} {
		t.Run(name, func(t *testing.T) {
			l, rng, rows := auto.New(o), rand.New(rand.NewPCG(3, 4)), 1500
			if testing.Short() {
				rows = 1200
			}
			var out model.Outcome
			for n, s := range modeltest.Samples(5, o.Dimension, rows) {
				if n == 0 || n == 7 || n == 200 || n == rows-1 {
					comparePredictions(t, l, o, rng)
				}
				if len(o.Keys) > 0 {
					s.X[3] = float64(rng.IntN(9))
				}
				require.NoError(t, l.Observe(&out, s.X, []float64{s.Y, -s.Y}[:o.Outputs], s.Weight))
			}
		})
	}
}

func comparePredictions(t *testing.T, l *auto.Learner, o auto.Options, rng *rand.Rand) {
	t.Helper()
	const rows = 19
	together, alone, x := make([]*model.Prediction, rows), make([]*model.Prediction, rows), make([][]float64, rows)
	for n, s := range modeltest.Samples(rng.Uint64(), o.Dimension, rows) {
		if len(o.Keys) > 0 {
			s.X[3] = float64(rng.IntN(12))
		}
		ahead := rng.IntN(3) * rng.IntN(300)
		x[n], together[n], alone[n] = s.X, &model.Prediction{Horizon: ahead}, &model.Prediction{Horizon: ahead}
		require.NoError(t, l.Predict(alone[n], s.X))
	}
	require.NoError(t, l.PredictAll(together, x))
	for n := range x {
		require.Equal(t, alone[n], together[n], n)
	}
	x[rows-1] = x[rows-1][:1]
	assert.Error(t, l.PredictAll(together, x), "a row of one number was predicted")
}
