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
	"hindsight/internal/model/modeltest"
)

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
				state := must(l.AppendBinary(nil))(t)
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
				assert.True(t, bytes.Equal(state, must(l.AppendBinary(nil))(t)), "seed %d: predicting changed the state", seed)
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
				require.NoError(t, copied.Restore(must(l.AppendBinary(nil))(t)))
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
