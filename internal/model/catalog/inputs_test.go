package catalog_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/input"
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
	completed := must(input.Complete(inputs, false))(t)
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
		require.NoError(t, schema.Settle(r))
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
		require.NoError(t, schema.Settle(r))
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
