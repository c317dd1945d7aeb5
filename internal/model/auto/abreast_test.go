package auto_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

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
				if err := l.Observe(&out, s.X, []float64{s.Y, -s.Y}[:o.Outputs], s.Weight); err != nil {
					t.Fatal(err)
				}
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
		if err := l.Predict(alone[n], s.X); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.PredictAll(together, x); err != nil {
		t.Fatal(err)
	}
	for n := range x {
		if !reflect.DeepEqual(together[n], alone[n]) {
			t.Fatalf("row %d: %+v together, %+v alone", n, together[n], alone[n])
		}
	}
	x[rows-1] = x[rows-1][:1]
	if err := l.PredictAll(together, x); err == nil {
		t.Error("a row of one number was predicted")
	}
}
