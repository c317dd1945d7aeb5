package catalog_test

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// auto tells 300 classes by their centers, costs with the known classes alone, and goes on bit for
// bit once it is restored.
func TestAutoOfManyClasses(t *testing.T) {
	const classes, dimension, rows = 300, 10, 4500
	limit := classes
	spec, cost, err := catalog.Complete(model.Spec{Dimension: dimension, Auto: &model.Auto{}, Classes: &model.Classes{MaxClasses: &limit}})
	require.NoError(t, err)
	learner := func() model.Classifier {
		l := must(catalog.New(spec))(t)
		c, ok := l.(model.Classifier)
		require.True(t, ok, "%T is no classifier", l)
		return c
	}
	rng := rand.New(rand.NewPCG(1, 37))
	centers := make([][dimension]float64, classes)
	for k := range centers {
		for j := range centers[k] {
			centers[k][j] = 100 + 40*rng.NormFloat64()
		}
	}
	l := learner()
	assert.LessOrEqual(t, l.Size(), cost.StateBytes/4, cost.StateBytes)
	wrong, asked := 0, 0
	for n := range rows {
		k, x := rng.IntN(classes), make([]float64, dimension)
		for j := range x {
			x[j] = centers[k][j] + 20*rng.NormFloat64()
		}
		var p model.ClassPrediction
		require.NoError(t, l.PredictClass(&p, x))
		if n > rows*2/3 {
			asked++
			if p.Name() != strconv.Itoa(k) {
				wrong++
			}
		}
		var o model.ClassOutcome
		require.NoError(t, l.ObserveClass(&o, x, strconv.Itoa(k), 1, p.Advice))
		if n%1500 == 700 {
			state := must(l.AppendBinary(nil))(t)
			again := learner()
			require.NoError(t, again.Restore(state))
			other, err := again.AppendBinary(nil)
			require.True(t, err == nil && bytes.Equal(state, other), "row %d: restored, it has another state, %v", n, err)
			l = again
		}
	}
	assert.LessOrEqual(t, float64(wrong)/float64(asked), 0.12)
	assert.LessOrEqual(t, l.Size(), cost.StateBytes)
}
