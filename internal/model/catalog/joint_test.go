package catalog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/input"
)

// lossOfCategories is the mean loss over rows of ten numbers and two categories of 50 texts,
// whose effects are so large, with the categories as texts or as ordinal codes.
func lossOfCategories(t *testing.T, spec model.Spec, effect float64, codes bool) float64 {
	t.Helper()
	const seed, rows, numbers, texts = 7, 1200, 10, 50
	rng := rand.New(rand.NewPCG(seed, seed))
	var effects [2][texts]float64
	for c := range effects {
		for k := range effects[c] {
			effects[c][k] = effect * rng.NormFloat64()
		}
	}
	for j := range numbers {
		spec.Inputs = append(spec.Inputs, &model.Input{Name: fmt.Sprint("x", j), Numeric: &model.NumericInput{}, Missing: model.MissingReject})
	}
	for c := range effects {
		in := &model.Input{Name: fmt.Sprint("c", c), Categorical: &model.CategoricalInput{MaxCategories: ptr(texts)}, Missing: model.MissingReject}
		if codes {
			in.Categorical, in.Numeric = nil, &model.NumericInput{}
		}
		spec.Inputs = append(spec.Inputs, in)
	}
	created, _, err := catalog.Complete(spec)
	require.NoError(t, err)
	l := must(catalog.New(created))(t)
	schema := input.NewSchema(created.Inputs, created.MaxKeys(), created.HasTokens())
	e := input.NewEncoder(schema)
	var r input.Record
	var o model.Outcome
	loss := 0.0
	for range rows {
		r.Reset(schema.Len())
		var x [numbers]float64
		for j := range x {
			x[j] = rng.NormFloat64()
			r.SetNumber(j, x[j])
		}
		y := x[0] + 0.7*x[1]*x[2] + 0.5*x[3]*x[3] + 0.3*rng.NormFloat64()
		for c := range effects {
			k := rng.IntN(texts)
			y += effects[c][k]
			if codes {
				r.SetNumber(numbers+c, float64(k))
			} else {
				r.SetText(numbers+c, fmt.Sprint("text ", k))
			}
		}
		require.NoError(t, schema.Settle(&r))
		require.NoError(t, l.Observe(&o, e.Encode(nil, &r), []float64{y}, 1))
		e.Learn(&r)
		loss += o.Loss / rows
	}
	return loss
}

// Categories of many texts do not drown the numbers beside them: ones that mean nothing cost
// little more than as ordinal codes, which nothing is lost by; ones that mean something are
// better than those.
func TestCategoriesBesideNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		spec                 model.Spec
		meaningless, meaning float64
	}{
		"auto":        {model.Spec{Outputs: 1, Seed: 1, Auto: &model.Auto{}}, 1.4, 0.9},
		"fourier_awv": {model.Spec{Outputs: 1, Seed: 1, FourierAWV: &model.FourierAWV{}}, 1.25, 1},
	} {
		for _, m := range []struct{ effect, limit float64 }{{0, c.meaningless}, {0.5, c.meaning}} {
			texts, codes := lossOfCategories(t, c.spec, m.effect, false), lossOfCategories(t, c.spec, m.effect, true)
			t.Logf("%s, effects of %g: %.4g as texts, %.4g as codes: %.3f", name, m.effect, texts, codes, texts/codes)
			assert.False(t, texts > m.limit*codes, "%s, effects of %g: %.4g as texts, %.4g as codes, want at most %g times that", name, m.effect, texts, codes, m.limit)
		}
	}
}

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
		if n == rows-1 {
			ahead := model.ClassPrediction{Prediction: model.Prediction{Horizon: 50}}
			require.NoError(t, l.PredictClass(&ahead, x))
			require.Equal(t, p.Probabilities, ahead.Probabilities, "no expert reads labels of earlier rows")
			require.Zero(t, ahead.Spread)
		}
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
