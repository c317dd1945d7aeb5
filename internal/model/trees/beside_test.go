package trees_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

// Trees beside effects learn what the effects leave, from the inputs that are no columns of keys:
// their predictions differ by the effects of rows whose other inputs are equal.
func TestBesideEffects(t *testing.T) {
	layout := window.Layout{Inputs: 5}
	w := window.New(2000, layout)
	offsets, units := make([]float64, 6), make([]float64, 6)
	for j := range units {
		units[j] = 2
	}
	w.Begin(offsets, units)
	f := trees.New(trees.Options{
		Seed: 1, Inputs: 5, Columns: []trees.Kind{trees.Beside}, Keys: trees.Keys{From: 1, Effect: 3, To: 4},
	}, w)
	rng := rand.New(rand.NewPCG(1, 1))
	row, columns := make([]float32, layout.Columns()), make([]float64, layout.Columns())
	predict := func() float64 {
		p := make([]float64, 1)
		w.Fill(row, columns, w.Count(), 0)
		f.Predict(p, make([]int64, 1), row, 0)
		return p[0]
	}
	loss := 0.0
	for n := range 4000 {
		x, first, second := rng.Float64(), rng.NormFloat64(), rng.NormFloat64()
		copy(columns, []float64{x, first, second, first, 0})
		y := first + second
		if x > 0.5 {
			y += 3
		}
		if n >= 3000 {
			loss += (predict() - y) * (predict() - y) / 1000
			before := predict()
			columns[1], columns[3] = columns[1]+0.5, 7
			got := predict() - before
			require.False(t, math.Abs(got-0.5) > 1e-5, "row %d: an effect of 0.5 more changes the prediction by %g", n, got)
			columns[1], columns[3] = first, first
		}
		w.Add(columns, w.Count(), y, 0, 1)
		f.Observe(nil, nil)
	}
	assert.False(t, loss > 0.05, "a loss of %g", loss)
}
