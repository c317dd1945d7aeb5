package engine_test

import (
	"context"
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
		assert.True(t, in.Name == schema.Name(n) && in.Statistics == encoder.Statistics(n), "%+v, want %+v", in, encoder.Statistics(n))
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
	assert.ErrorIs(t, errOf(predict(other)), engine.ErrConflict)
	observe := func(o engine.Observation) (engine.Answer, error) {
		o.Labels, o.Weight = []float64{1}, 1
		a, err := h.Observe(t.Context(), "m", []engine.Observation{o})
		if err != nil {
			return engine.Answer{}, err
		}
		return a[0], nil
	}
	assert.ErrorIs(t, errOf(observe(engine.Observation{ObservationID: "a", Inputs: other})), engine.ErrConflict)
	for n := range 3 {
		a, err := observe(engine.Observation{ObservationID: "a", Inputs: one})
		assert.True(t, err == nil && a.Duplicate == (n > 0) && a.Served, "%+v, %v", a, err)
	}
	assert.ErrorIs(t, errOf(observe(engine.Observation{ObservationID: "a", Inputs: other})), engine.ErrConflict)
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

// cluster is an input of a class, of which there are three.
func cluster(rng *rand.Rand, class int) []float64 {
	return []float64{float64(3*(class%2)) + rng.NormFloat64(), float64(3*(class/2)) + rng.NormFloat64()}
}

// A classifier says classes and probabilities; what came of them is remembered,
// answered again, and replayed.
func TestClasses(t *testing.T) {
	disk, clock := newDisk(), newClock()
	h := start(t, disk, clock, after(40))
	spec := model.Spec{Dimension: 2, Classes: &model.Classes{MaxClasses: ptr(3)}, RLSC: &model.RLSC{}}
	h.create(t, "m", spec)
	rng := rand.New(rand.NewPCG(5, 6))
	names := []string{"cat", "dog", "fox"}
	wrong := 0
	for round := range 200 {
		class := rng.IntN(2)
		if round >= 100 {
			class = rng.IntN(3)
		}
		p := h.predict(t, "m", cluster(rng, class)...)
		sum := 0.0
		for _, v := range p.Probabilities {
			sum += v
		}
		require.True(t, (round <= 0 || sum > 0.999999 && sum < 1.000001) && len(p.Classes) == len(p.Probabilities), "round %d: %+v", round, p)
		o := engine.Observation{PredictionID: p.ID, Class: names[class]}
		a := h.observe(t, "m", o)[0]
		require.True(t, a.Served && a.ServedClass == p.Name() && a.Class == p.Name() && len(a.Predictions) == 0, "%+v of %+v", a, p)
		again := h.observe(t, "m", o)[0]
		require.True(t, again.Duplicate && again.ServedClass == a.ServedClass && again.Loss == a.Loss, "%+v, first %+v", again, a)
		if round > 0 && p.Name() != names[class] { // The first is not scored.
			wrong++
		}
		if round%70 == 69 {
			before := h.stats(t, "m")
			h.stop(t)
			h = start(t, disk, clock, after(40))
			got := h.stats(t, "m")
			require.True(t, got.Digest == before.Digest && reflect.DeepEqual(got.ClassAccount, before.ClassAccount) && got.Served == before.Served, "after a restart %+v, want %+v", got, before)
		}
	}
	s := h.stats(t, "m").ClassAccount
	if s == nil || s.Whole.Served.Errors != float64(wrong) || s.Predicted != 199 || !reflect.DeepEqual(s.Names, []string{"cat", "dog", "fox"}) && !reflect.DeepEqual(s.Names, []string{"dog", "cat", "fox"}) {
		t.Errorf("%d errors, %+v", wrong, s)
	}
	skill := s.Whole.Served.Skill()
	assert.True(t, skill > 0.5, "skill %g", skill)
	for what, o := range map[string]engine.Observation{
		"a class too many": {Features: []float64{1, 2}, Class: "owl", Weight: 1},
		"a label":          {Features: []float64{1, 2}, Labels: []float64{1}, Weight: 1},
		"nothing":          {Features: []float64{1, 2}, Weight: 1},
	} {
		want := map[string]error{"a class too many": model.ErrClassLimit, "a label": model.ErrLabelKind, "nothing": model.ErrInvalidClass}[what]
		assert.ErrorIs(t, errOf(h.Observe(t.Context(), "m", []engine.Observation{o})), want, what)
	}
}

// Of classes that come together, those too many are rejected whole, and the model goes
// on: what one call was checked against, another may have changed.
func TestClassLimitAtTheTurn(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", model.Spec{Dimension: 1, Classes: &model.Classes{MaxClasses: ptr(2)}, RLSC: &model.RLSC{}})
	batch := func(names ...string) (all []engine.Observation) {
		for n, name := range names {
			all = append(all, engine.Observation{Features: []float64{float64(n)}, Class: name, Weight: 1})
		}
		return all
	}
	assert.ErrorIs(t, errOf(h.Observe(t.Context(), "m", batch("a", "b", "c"))), model.ErrClassLimit)
	s := h.stats(t, "m")
	assert.EqualValues(t, 0, s.Sequence)
	tickets := make([]*engine.Ticket, 6)
	for n := range tickets {
		var err error
		tickets[n], err = h.Submit(t.Context(), "m", batch(fmt.Sprint("class ", n)))
		require.True(t, err == nil || errors.Is(err, model.ErrClassLimit), err)
	}
	learned := 0
	for _, ticket := range tickets {
		if ticket == nil {
			continue
		}
		switch _, err := ticket.Wait(t.Context()); {
		case err == nil:
			learned++
		case !errors.Is(err, model.ErrClassLimit):
			t.Error(err)
		}
	}
	s = h.stats(t, "m")
	assert.True(t, learned == 2 && s.Sequence == 2, "%d learned, sequence %d", learned, s.Sequence)
}

// A prediction of classes that a restore has undone is learned as one that was not
// made: its numbers mean other classes.
func TestPredictionOfUndoneClasses(t *testing.T) {
	disk, clock := newDisk(), newClock()
	h := start(t, disk, clock)
	h.create(t, "m", model.Spec{Dimension: 1, RLSC: &model.RLSC{}})
	h.observe(t, "m", engine.Observation{Features: []float64{1}, Class: "a"}, engine.Observation{Features: []float64{2}, Class: "b"})
	undone, kept := h.predict(t, "m", 1.5), h.predict(t, "m", 1.25)
	must(h.RestoreModel(context.Background(), "m", 0))(t)
	h.observe(t, "m", engine.Observation{Features: []float64{2}, Class: "b"})
	a := h.observe(t, "m", engine.Observation{PredictionID: undone.ID, Class: "a"})[0]
	assert.True(t, !a.Served && a.Sequence == 2, "%+v", a)
	h.stop(t)
	h = start(t, disk, clock)
	assert.EqualValues(t, 1, h.stats(t, "m").Pending)
	a = h.observe(t, "m", engine.Observation{PredictionID: kept.ID, Class: "a"})[0]
	assert.False(t, a.Served || a.Sequence != 3, "%+v", a)
}

// An exported model of records and classes goes on elsewhere as it would here.
func TestExportOfRecordsAndClasses(t *testing.T) {
	from, to := start(t, newDisk(), newClock()), start(t, newDisk(), newClock())
	from.create(t, "m", weather(model.Spec{Classes: &model.Classes{}, LinearAWV: &model.LinearAWV{}}))
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 40 {
		from.observe(t, "m", engine.Observation{Inputs: drawn(rng), Class: []string{"dry", "wet"}[n%2]})
	}
	waiting := from.named(t, "m", drawn(rng))
	data := must(from.ExportModel(t.Context(), "m", engine.ExportOptions{}))(t)
	must(to.ImportModel(t.Context(), "copy", data))(t)
	a, b := from.stats(t, "m"), to.stats(t, "copy")
	assert.True(t, a.Digest == b.Digest && reflect.DeepEqual(a.Inputs, b.Inputs) && reflect.DeepEqual(a.ClassAccount, b.ClassAccount), "%+v\n%+v", a, b)
	o := engine.Observation{PredictionID: waiting.ID, Class: "wet"}
	if a, b := from.observe(t, "m", o)[0], to.observe(t, "copy", o)[0]; !reflect.DeepEqual(a, b) || !a.Served {
		t.Errorf("%+v\n%+v", a, b)
	}
}
