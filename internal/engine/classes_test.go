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
)

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
		_, err := h.Observe(t.Context(), "m", []engine.Observation{o})
		assert.ErrorIs(t, err, want, what)
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
	_, err := h.Observe(t.Context(), "m", batch("a", "b", "c"))
	assert.ErrorIs(t, err, model.ErrClassLimit)
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
