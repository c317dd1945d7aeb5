package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// weather has inputs of every kind.
func weather(learner model.Spec) model.Spec {
	learner.Inputs = []*model.Input{
		{Name: "temperature", Numeric: &model.NumericInput{}},
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(3)}},
		{Name: "at", Time: &model.TimeInput{Cycles: []string{model.CycleHourOfDay}, Trend: ptr(true)}},
		{Name: "open", Boolean: &model.BooleanInput{}},
		{Name: "wind", Vector: &model.VectorInput{Length: ptr(2)}},
	}
	return learner
}

// drawn is a record of the weather.
func drawn(rng *rand.Rand) *input.Record {
	r := new(input.Record)
	r.Reset(5)
	if rng.IntN(4) > 0 {
		r.SetNumber(0, 20*rng.NormFloat64())
	}
	if rng.IntN(6) > 0 {
		r.SetText(1, fmt.Sprint("city ", rng.IntN(5)))
	}
	if rng.IntN(5) > 0 {
		r.SetText(2, fmt.Sprintf("2026-%02d-%02dT%02d:00:00Z", 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24)))
	}
	r.SetBoolean(3, rng.IntN(2) == 0)
	copy(r.SetNumbers(4, 2), []float64{rng.NormFloat64(), rng.NormFloat64()})
	return r
}

// named predicts one record and remembers it.
func (h *host) named(t *testing.T, id string, r *input.Record) engine.Prediction {
	t.Helper()
	p := must(h.Predict(t.Context(), id, []engine.Row{{Inputs: r}}, engine.PredictOptions{Remember: true}))(t)
	return p[0]
}

// A model of named inputs is its encoder before its learner: what it predicts and
// learns is what they do one after the other, across restarts, late labels, snapshots
// and replays.
func TestNamedInputs(t *testing.T) {
	disk, clock := newDisk(), newClock()
	h := start(t, disk, clock, after(40))
	h.create(t, "m", weather(model.Spec{LinearAWV: &model.LinearAWV{}}))
	info, err := h.GetModel(t.Context(), "m")
	require.NoError(t, err)
	schema := input.NewSchema(info.Spec.Inputs, info.Spec.MaxKeys(), info.Spec.HasTokens())
	encoder, learner := input.NewEncoder(schema), newLearner(t, info.Spec)
	rng := rand.New(rand.NewPCG(1, 2))
	type waiting struct {
		engine.Prediction
		record *input.Record
	}
	var late []waiting
	for round := range 150 {
		r := drawn(rng)
		p := h.named(t, "m", r)
		var want model.Prediction
		require.NoError(t, learner.Predict(&want, encoder.Encode(nil, r)))
		require.Equal(t, want.Values, p.Values, round)
		late = append(late, waiting{p, r})
		if len(late) < 7 {
			continue
		}
		w := late[0]
		late = late[1:]
		y := rng.NormFloat64()
		a := h.observe(t, "m", engine.Observation{PredictionID: w.ID, Labels: []float64{y}})[0]
		var out model.Outcome
		require.NoError(t, learner.Observe(&out, encoder.Encode(nil, w.record), []float64{y}, 1))
		encoder.Learn(w.record)
		require.True(t, a.Served && a.ServedPredictions[0] == w.Values[0] && reflect.DeepEqual(a.Predictions, out.Predictions), "round %d: %+v, want %+v", round, a, out)
		if round%50 == 49 {
			before := h.stats(t, "m")
			h.stop(t)
			h = start(t, disk, clock, after(40))
			got := h.stats(t, "m")
			require.True(t, got.Digest == before.Digest && reflect.DeepEqual(got.Inputs, before.Inputs), "after a restart %+v, want %+v", got, before)
		}
	}
	s := h.stats(t, "m")
	for n, in := range s.Inputs {
		if in.Name != schema.Name(n) || in.Statistics != encoder.Statistics(n) {
			t.Errorf("%+v, want %+v", in, encoder.Statistics(n))
		}
	}
	info, err = h.GetModel(t.Context(), "m")
	if err != nil || len(info.Inputs) != 5 || len(info.Inputs[1].Categories) != 3 || info.Inputs[1].Features[0] != "city="+info.Inputs[1].Categories[0].Name {
		t.Errorf("%+v, %v", info.Inputs, err)
	}
}

// Records that come in batches leave the state of those that come one by one: each is
// encoded by what those before it left. Predict leaves it as it was, a category that
// nobody has observed included.
func TestRecordsInBatches(t *testing.T) {
	one, many := start(t, newDisk(), newClock()), start(t, newDisk(), newClock())
	spec := weather(model.Spec{FourierAWV: &model.FourierAWV{}})
	one.create(t, "m", spec)
	many.create(t, "m", spec)
	rng := rand.New(rand.NewPCG(9, 10))
	var batch []engine.Observation
	for range 120 {
		o := engine.Observation{Inputs: drawn(rng), Labels: []float64{rng.NormFloat64()}, Weight: 1}
		one.observe(t, "m", o)
		batch = append(batch, o)
		if rng.IntN(9) == 0 {
			many.observe(t, "m", batch...)
			batch = nil
		}
		r := drawn(rng)
		r.SetText(1, "a city that nobody has observed")
		many.named(t, "m", r)
	}
	if len(batch) > 0 {
		many.observe(t, "m", batch...)
	}
	a, b := one.stats(t, "m"), many.stats(t, "m")
	assert.True(t, a.Digest == b.Digest && reflect.DeepEqual(a.Inputs, b.Inputs) && a.Loss == b.Loss, "%+v\n%+v", a, b)
}

// A record is the identity of what was predicted under an id, as features are.
func TestConflictsOfRecords(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", weather(model.Spec{LinearAWV: &model.LinearAWV{}}))
	rng := rand.New(rand.NewPCG(3, 4))
	one, other := drawn(rng), drawn(rng)
	rows := []engine.Row{{Inputs: one}}
	chosen := engine.PredictOptions{Remember: true, IDs: []string{"a"}}
	predict := func(r *input.Record) (engine.Prediction, error) {
		rows[0].Inputs = r
		p, err := h.Predict(t.Context(), "m", rows, chosen)
		if err != nil {
			return engine.Prediction{}, err
		}
		return p[0], nil
	}
	first := must(predict(one))(t)
	again, err := predict(one)
	assert.True(t, err == nil && reflect.DeepEqual(again, first), "%+v, want %+v: %v", again, first, err)
	_, err = predict(other)
	assert.ErrorIs(t, err, engine.ErrConflict)
	observe := func(o engine.Observation) (engine.Answer, error) {
		o.Labels, o.Weight = []float64{1}, 1
		a, err := h.Observe(t.Context(), "m", []engine.Observation{o})
		if err != nil {
			return engine.Answer{}, err
		}
		return a[0], nil
	}
	_, err = observe(engine.Observation{ObservationID: "a", Inputs: other})
	assert.ErrorIs(t, err, engine.ErrConflict)
	for n := range 3 {
		a, err := observe(engine.Observation{ObservationID: "a", Inputs: one})
		assert.True(t, err == nil && a.Duplicate == (n > 0) && a.Served, "%+v, %v", a, err)
	}
	_, err = observe(engine.Observation{ObservationID: "a", Inputs: other})
	assert.ErrorIs(t, err, engine.ErrConflict)
	a, err := observe(engine.Observation{PredictionID: "a"})
	assert.True(t, err == nil && a.Duplicate, "%+v, %v", a, err)
	h.create(t, "v", linear(2))
	for field, o := range map[string]engine.Observation{
		"features": {Features: []float64{1, 2}}, "inputs": {Inputs: one},
	} {
		id := map[string]string{"features": "m", "inputs": "v"}[field]
		o.Labels, o.Weight = []float64{1}, 1
		_, err := h.Observe(t.Context(), id, []engine.Observation{o})
		var wrong *model.FieldError
		assert.True(t, errors.As(err, &wrong) && wrong.Field == field && errors.Is(err, engine.ErrInvalidRequest), "%s of model %s: %v", field, id, err)
	}
}

// How a model scales its categories is no part of what its inputs are: a model with a joint
// scale can follow one without. A model of an id keeps the scale that it was created with.
func TestAFollowerMayScaleItsCategoriesOtherwise(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	spec := weather(model.Spec{LinearAWV: &model.LinearAWV{}})
	separate := weather(model.Spec{LinearAWV: &model.LinearAWV{}})
	separate.Inputs[1].Categorical.JointScale = ptr(false)
	must(h.CreateModel(t.Context(), "separate", separate))(t)
	if _, err := h.CreateModel(t.Context(), "separate", spec); !errors.Is(err, engine.ErrModelExists) {
		t.Errorf("created with another scale: %v", err)
	}
	info, err := h.Engine.CreateModel(t.Context(), "follower", spec, engine.CreateOptions{Follows: "separate"})
	assert.True(t, err == nil && *info.Spec.Inputs[1].Categorical.JointScale, "a follower: %+v, %v", info, err)
	assert.Nil(t, spec.Inputs[1].Categorical.JointScale, "the caller's spec has changed")
}
