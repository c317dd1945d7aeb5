package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/modeltest"
)

// tight is a spec whose learner takes features of a magnitude of 1e5 at most, and
// whose scaling brings every bounded feature there.
func tight(t *testing.T, fraction float64) model.Spec {
	t.Helper()
	inputs := []*model.Input{
		{Name: "at", Time: &model.TimeInput{Cycles: []string{model.CycleHourOfDay}, Trend: ptr(true)}},
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}},
		{Name: "open", Boolean: &model.BooleanInput{}},
		{Name: "load", Numeric: &model.NumericInput{Log1p: ptr(true)}},
		{Name: "sensors", Vector: &model.VectorInput{Length: ptr(2)}},
	}
	completed := must(input.Complete(inputs, input.Options{}))(t)
	bounds := input.NewSchema(completed, 0, false).Bounds()
	const limit, offset = 1e5, -0.25
	fixed := &model.FixedScaling{}
	for _, bound := range bounds {
		scale := 1000.0
		if bound > 0 {
			scale = fraction * limit / (bound - offset)
		}
		fixed.Offset, fixed.Scale = append(fixed.Offset, offset), append(fixed.Scale, scale)
	}
	// The limit of a linear kernel is √(1e12 λ/d).
	lambda := limit * limit * float64(len(bounds)) / 1e12
	return model.Spec{
		Inputs: inputs, Scaling: &model.Scaling{Fixed: fixed},
		KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "linear"}, Lambda: &lambda, MaxObservations: ptr(1000)},
	}
}

// record is a random one, with values that are missing, at the ends of what a time
// and a learner's limit allow, and beyond.
func record(rng *rand.Rand, s *input.Schema) *input.Record {
	r := new(input.Record)
	r.Reset(s.Len())
	missing := func() bool { return rng.IntN(3) == 0 }
	if !missing() {
		r.SetText(0, []string{"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59", "1970-01-01T06:00:00Z"}[rng.IntN(3)])
	}
	if !missing() {
		r.SetText(1, fmt.Sprint("city ", rng.IntN(5)))
	}
	if !missing() {
		r.SetBoolean(2, rng.IntN(2) == 0)
	}
	if !missing() {
		r.SetNumber(3, math.Exp(210*rng.Float64())*float64(1-2*rng.IntN(2)))
	}
	if !missing() {
		copy(r.SetNumbers(4, 2), []float64{100 * rng.NormFloat64(), 99.75})
	}
	return r
}

// An observation that was accepted is learned whatever was learned in between, also if
// its features have changed by that: its category has a column, its time a distance,
// its missing values other means.
func TestWhatWasAcceptedIsLearned(t *testing.T) {
	spec, _, err := catalog.Complete(tight(t, 1-1e-6))
	require.NoError(t, err)
	l, err := catalog.New(spec)
	require.NoError(t, err)
	schema := input.NewSchema(spec.Inputs, spec.MaxKeys(), spec.HasTokens())
	e := input.NewEncoder(schema)
	rng := rand.New(rand.NewPCG(3, 1))
	var accepted []*input.Record
	rejections, changed := 0, 0
	features := map[*input.Record][]float64{}
	for range 2000 {
		r := record(rng, schema)
		require.NoError(t, schema.Accept(r))
		x := e.Encode(nil, r)
		if err := l.Check(x, []float64{1}, 1); err != nil {
			require.ErrorIs(t, err, model.ErrFeatureOutOfRange)
			rejections++
			continue
		}
		accepted, features[r] = append(accepted, r), x
		if len(accepted) < 50 {
			continue
		}
		k := rng.IntN(len(accepted))
		late := accepted[k]
		accepted[k] = accepted[len(accepted)-1]
		accepted = accepted[:len(accepted)-1]
		now := e.Encode(nil, late)
		require.NoError(t, l.Check(now, []float64{1}, 1), "%v %v", features[late], now)
		for i := range now {
			if now[i] != features[late][i] {
				changed++
				break
			}
		}
		e.Learn(late)
	}
	assert.True(t, rejections >= 100 && changed >= 100, "%d rejections, %d whose features have changed", rejections, changed)
	var field *model.FieldError
	_, _, err = catalog.Complete(tight(t, 1+1e-6))
	assert.True(t, errors.As(err, &field) && field.Field == "spec.inputs[0]", "%v, want a rejection of the first input", err)
}

// A learner whose limit is that of every number takes what a scaling makes of the
// bounds, or the spec is rejected.
func TestScalesBeyondEveryLimit(t *testing.T) {
	spec := model.Spec{
		Inputs:    []*model.Input{{Name: "open", Boolean: &model.BooleanInput{}}},
		LinearAWV: &model.LinearAWV{},
		Scaling:   &model.Scaling{Fixed: &model.FixedScaling{Offset: []float64{0, 1e90}, Scale: []float64{1e30, 1e9}}},
	}
	_, _, err := catalog.Complete(spec)
	assert.NoError(t, err)
	spec.Scaling.Fixed.Scale[1] = 1e11
	_, _, err = catalog.Complete(spec)
	assert.ErrorIs(t, err, model.ErrInvalidSpec)
}

// The memory that a spec is said to take is more than its encoder ever takes.
func TestTheCostHasTheEncoder(t *testing.T) {
	plain := model.Spec{LinearAWV: &model.LinearAWV{}, Scaling: model.Unscaled()}
	named := plain
	named.Inputs = []*model.Input{
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(20)}},
		{Name: "load", Numeric: &model.NumericInput{}},
		{Name: "sensors", Vector: &model.VectorInput{Length: ptr(9)}},
	}
	named, cost, err := catalog.Complete(named)
	require.NoError(t, err)
	plain.Dimension = named.Dimension
	_, without, err := catalog.Complete(plain)
	require.NoError(t, err)
	schema := input.NewSchema(named.Inputs, named.MaxKeys(), named.HasTokens())
	e := input.NewEncoder(schema)
	limit, r := uint64(0), new(input.Record)
	for n := range 200 {
		r.Reset(schema.Len())
		r.SetText(0, fmt.Sprintf("%0256d", n))
		r.SetNumber(1, float64(n))
		r.SetNumbers(2, 9)
		require.NoError(t, schema.Accept(r))
		e.Learn(r)
		limit = max(limit, e.Size())
	}
	promised := cost.StateBytes - without.StateBytes
	assert.True(t, limit <= promised && 2*limit >= promised, "%d bytes, %d promised", limit, promised)
}

// With more outputs or classes than keys have effects on, a key alone is encoded too, so that the
// input is not lost.
func TestKeysOfManyOutputs(t *testing.T) {
	inputs := []*model.Input{{Name: "user", Categorical: &model.CategoricalInput{Key: true}}}
	for name, c := range map[string]struct {
		spec    model.Spec
		encoded bool
	}{
		"one output":    {model.Spec{Inputs: inputs}, false},
		"eight outputs": {model.Spec{Inputs: inputs, Outputs: 8}, false},
		"nine outputs":  {model.Spec{Inputs: inputs, Outputs: 9}, true},
		"eight classes": {model.Spec{Inputs: inputs, Classes: &model.Classes{MaxClasses: ptr(8)}}, false},
		"nine classes":  {model.Spec{Inputs: inputs, Classes: &model.Classes{MaxClasses: ptr(9)}}, true},
		"classes":       {model.Spec{Inputs: inputs, Classes: &model.Classes{}}, true},
	} {
		for range 2 { // A completed spec stays as it is.
			completed, _, err := catalog.Complete(c.spec)
			require.NoError(t, err, name)
			encoded := completed.Inputs[0].Categorical.MaxCategories != nil
			assert.True(t, encoded == c.encoded, "%s: encoded %t", name, encoded)
			c.spec = completed
		}
	}
	assert.Nil(t, inputs[0].Categorical.MaxCategories, "Complete wrote to the spec")
}

// What happens to inputs and weights costs a learner that scales at most a share of its loss on
// the clean stream, from 500 rows after the change on. It is the same stream throughout. All
// variants have six columns more: rounding is compared with constants, not with no columns,
// which cost a learner less, because d counts unchanged columns.
func TestDirtyInputs(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	const rows, change = 3600, 1800
	type sent struct {
		x      []float64
		y      float64
		weight float64
		// counts says that the loss of the row counts.
		counts bool
	}
	clean := func(noise func(rng *rand.Rand) float64) (out []sent) {
		rng, noises := rand.New(rand.NewPCG(36, 1)), rand.New(rand.NewPCG(36, 2))
		for n := range rows {
			x := []float64{10 + 3*rng.NormFloat64(), rng.Float64(), rng.NormFloat64(), rng.ExpFloat64()}
			y := 2*math.Sin(x[0]/2) + 3*x[1]*x[2] + x[3] + 0.3*rng.NormFloat64()
			for range 6 {
				x = append(x, noise(noises))
			}
			out = append(out, sent{x, y, 1, n >= change+500})
		}
		return out
	}
	constant := func(*rand.Rand) float64 { return 0.3 }
	rounding := func(rng *rand.Rand) float64 {
		if rng.IntN(2) == 0 {
			return 0.3
		}
		return 0.30000000000000004
	}
	garbage := func(weight float64) []sent {
		rng := rand.New(rand.NewPCG(36, 3))
		var out []sent
		for _, r := range clean(constant) {
			r.counts = true
			if out = append(out, r); rng.IntN(2) == 0 {
				x := append([]float64{10 + 3*rng.NormFloat64(), rng.Float64(), rng.NormFloat64(), rng.ExpFloat64()}, r.x[4:]...)
				out = append(out, sent{x, 100 * rng.NormFloat64(), weight, false})
			}
		}
		return out
	}
	strange, units := clean(constant), clean(constant)
	strange[change].x[0] = -9999
	for _, r := range units[change:] {
		for j := range 4 {
			r.x[j] *= 1000
		}
	}
	specs := map[string]model.Spec{
		"auto":         {Auto: &model.Auto{}},
		"pkawv_taylor": {PKAWVTaylor: &model.PKAWVTaylor{}},
		"ada_raker":    {AdaRaker: &model.AdaRaker{}},
		"fourier_awv":  {FourierAWV: &model.FourierAWV{}},
	}
	// The loss of the rows that count, and of all rows.
	loss := func(t *testing.T, spec model.Spec, stream []sent) (counted, all float64) {
		t.Helper()
		spec.Dimension = len(stream[0].x)
		l := must(catalog.New(spec))(t)
		for _, r := range stream {
			o := must(modeltest.Observe(l, r.x, r.y, r.weight))(t)
			square := (o.Prediction - r.y) * (o.Prediction - r.y)
			if all += square; r.counts {
				counted += square
			}
		}
		return counted, all
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			late, all := loss(t, spec, clean(constant))
			base := map[bool]float64{false: late, true: all}
			for _, c := range []struct {
				name   string
				stream []sent
				whole  bool
				bar    float64
			}{
				{"one -9999", strange, false, 1.05},
				{"units 1000 times", units, false, 1.15},
				{"rounding beside constants", clean(rounding), false, 1.02},
				{"garbage of weight 1e-9", garbage(1e-9), true, 1.02},
				{"garbage of weight 1e-3", garbage(1e-3), true, 1.05},
			} {
				if c.whole && spec.Auto != nil && !modeltest.Long() {
					continue
				}
				counted, _ := loss(t, spec, c.stream)
				ratio := counted / base[c.whole]
				t.Logf("%s, %s: %.3f of the clean loss", name, c.name, ratio)
				assert.True(t, ratio <= c.bar, "%s, %s: %.3f of the clean loss, want at most %g", name, c.name, ratio, c.bar)
			}
		})
	}
}

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
		require.NoError(t, schema.Accept(&r))
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
			state := modeltest.State(t, l.Visit)
			again := learner()
			require.NoError(t, codec.Read(state, again.Visit))
			other, err := codec.Append(nil, again.Visit)
			require.True(t, err == nil && bytes.Equal(state, other), "row %d: restored, it has another state, %v", n, err)
			l = again
		}
	}
	assert.LessOrEqual(t, float64(wrong)/float64(asked), 0.12)
	assert.LessOrEqual(t, l.Size(), cost.StateBytes)
}
