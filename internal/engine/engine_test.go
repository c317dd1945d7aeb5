package engine_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	steadyclock "hindsight/internal/clock"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

func TestCreateIsIdempotentBySpec(t *testing.T) {
	h := start(t, newDisk(), newClock())
	first := must(h.CreateModel(context.Background(), "a", taylor(2, 3)))(t)
	assert.True(t, first.Spec.PKAWVTaylor.Lambda != nil && *first.Spec.PKAWVTaylor.Lambda == 0.1, "defaults are not filled in: %+v", first.Spec.PKAWVTaylor)
	again, err := h.CreateModel(context.Background(), "a", taylor(2, 3))
	assert.True(t, err == nil && reflect.DeepEqual(again, first), "the same again: %+v, %v", again, err)
	assert.ErrorIs(t, errOf(h.CreateModel(context.Background(), "a", taylor(2, 4))), engine.ErrModelExists, "another spec")
	for _, id := range []string{"", "A", "-a", "a/b", "a b", strings.Repeat("a", 64)} {
		assert.ErrorIs(t, errOf(h.CreateModel(context.Background(), id, linear(1))), engine.ErrInvalidID, id)
	}
}

func TestBadObservationsAreRejected(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", taylor(2, 2))
	p := h.predict(t, "m", 1, 2)
	before := h.stats(t, "m")
	one := []float64{1}
	for name, c := range map[string]struct {
		o    engine.Observation
		want error
	}{
		"dimension":       {engine.Observation{Features: []float64{1}, Weight: 1}, model.ErrDimensionMismatch},
		"no features":     {engine.Observation{Weight: 1}, model.ErrDimensionMismatch},
		"NaN feature":     {engine.Observation{Features: []float64{1, math.NaN()}, Weight: 1}, model.ErrNotFinite},
		"infinite label":  {engine.Observation{Features: []float64{1, 2}, Labels: []float64{math.Inf(1)}, Weight: 1}, model.ErrNotFinite},
		"huge label":      {engine.Observation{PredictionID: p.ID, Labels: []float64{1e101}, Weight: 1}, model.ErrLabelOutOfRange},
		"weight":          {engine.Observation{PredictionID: p.ID, Labels: one, Weight: -1}, model.ErrWeightOutOfRange},
		"both":            {engine.Observation{PredictionID: p.ID, Features: []float64{1, 2}, Weight: 1}, engine.ErrInvalidRequest},
		"two ids":         {engine.Observation{PredictionID: p.ID, ObservationID: "o", Weight: 1}, engine.ErrInvalidRequest},
		"long id":         {engine.Observation{Features: []float64{1, 2}, ObservationID: strings.Repeat("x", 129), Weight: 1}, engine.ErrInvalidID},
		"unknown id":      {engine.Observation{PredictionID: "nobody", Labels: one, Weight: 1}, engine.ErrPredictionNotFound},
		"unknown, NaN":    {engine.Observation{PredictionID: "nobody", Labels: []float64{math.NaN()}, Weight: 1}, model.ErrNotFinite},
		"weight infinite": {engine.Observation{Features: []float64{1, 2}, Labels: one, Weight: math.Inf(1)}, model.ErrWeightOutOfRange},
		"no label":        {engine.Observation{PredictionID: p.ID, Weight: 1}, model.ErrDimensionMismatch},
	} {
		assert.ErrorIs(t, errOf(h.Observe(context.Background(), "m", []engine.Observation{c.o})), c.want, name)
	}
	assert.Equal(t, before, h.stats(t, "m"))
	assert.ErrorIs(t, errOf(h.Predict(context.Background(), "m", vectors([]float64{1, 2}, []float64{1}), engine.PredictOptions{})), model.ErrDimensionMismatch)
	assert.ErrorIs(t, errOf(h.Predict(context.Background(), "nobody", nil, engine.PredictOptions{})), engine.ErrModelNotFound)
}

func TestChosenPredictionIDs(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	predict := func(x float64) (engine.Prediction, error) {
		p, err := h.Predict(context.Background(), "m", vectors([]float64{x}), engine.PredictOptions{Remember: true, IDs: []string{"mine"}})
		if err != nil {
			return engine.Prediction{}, err
		}
		return p[0], nil
	}
	first, err := predict(1)
	require.True(t, err == nil && first.ID == "mine", "%v %v", first, err)
	h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{9}})
	again, err := predict(1)
	assert.True(t, err == nil && reflect.DeepEqual(again, first), "a retried Predict answers %+v, %v; first %+v", again, err, first)
	assert.ErrorIs(t, errOf(predict(2)), engine.ErrConflict, "other features")
	h.observe(t, "m", engine.Observation{PredictionID: "mine", Labels: []float64{1}})
	assert.ErrorIs(t, errOf(predict(1)), engine.ErrConflict, "after its label")
}

func TestLimits(t *testing.T) {
	h := start(t, newDisk(), newClock(), func(o *engine.Options) { o.PendingLimit = 2 })
	h.create(t, "m", linear(1))
	h.predict(t, "m", 1)
	named := engine.PredictOptions{Remember: true, IDs: []string{"x"}}
	must(h.Predict(context.Background(), "m", vectors([]float64{1}), named))(t)
	assert.ErrorIs(t, errOf(h.Predict(context.Background(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true})), engine.ErrPendingLimit)
	assert.NoError(t, errOf(h.Predict(context.Background(), "m", vectors([]float64{1}), named)), "a retry of the second, which adds nothing")
	assert.NoError(t, errOf(h.Predict(context.Background(), "m", vectors([]float64{1}), engine.PredictOptions{})), "not remembered")
}

// A learner that takes only so many observations rejects the rest, also those
// that were accepted while there was room, and what is logged is learnable.
func TestObservationLimit(t *testing.T) {
	fs, c := newDisk(), newClock()
	h := start(t, fs, c)
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(50)}})
	var tickets []*engine.Ticket
	for n := range 40 {
		var rows []engine.Observation
		for k := range 3 {
			rows = append(rows, engine.Observation{Features: []float64{float64(n)}, Labels: []float64{float64(k)}, Weight: 1})
		}
		ticket, err := h.Submit(context.Background(), "m", rows)
		if err == nil {
			tickets = append(tickets, ticket)
		} else if !errors.Is(err, model.ErrObservationLimit) {
			t.Fatal(err)
		}
	}
	learned := 0
	for _, ticket := range tickets {
		answers, err := ticket.Wait(context.Background())
		require.True(t, err == nil || errors.Is(err, model.ErrObservationLimit), err)
		learned += len(answers)
	}
	if want := h.stats(t, "m"); learned != 48 || want.Observations != 48 {
		t.Errorf("%d answered, %d learned, want 48", learned, want.Observations)
	}
	want := h.stats(t, "m").Digest
	h.stop(t)
	assert.True(t, start(t, fs, c).stats(t, "m").Digest == want, "recovered to another state")
}

// machineClock has the clocks of a machine, which the test moves.
type machineClock struct {
	mu sync.Mutex
	steadyclock.Reading
}

func newMachineClock() *machineClock {
	return &machineClock{Reading: steadyclock.Reading{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
}

func (m *machineClock) read() steadyclock.Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Reading
}

// move lets time pass, and sets the time of day.
func (m *machineClock) move(passed, set time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Now, m.Passed = m.Now.Add(passed+set), m.Passed+passed
}

// patience ends a wait for what never comes. A busy machine takes less.
const patience = 3 * time.Minute

// until sweeps until a condition holds that the upkeep of the engine brings about.
func until(t *testing.T, h *host, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		require.False(t, time.Now().After(end), what)
		h.Sweep()
	}
}

// A jump of the clock forward that is corrected within an hour expires no prediction and
// removes no deleted model, while what really is old expires. One that stays expires them
// after the hour.
func TestClockJumpsForward(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, corrected := range []bool{true, false} {
		m := newMachineClock()
		steady := steadyclock.Over(m.read, func(time.Duration, bool) {})
		h := startOn(t, newFS(), newClock(), func(o *engine.Options) {
			o.Now, o.DeletedKept, o.LabelTTL = steady.Now, 24*time.Hour, 24*time.Hour
		})
		h.create(t, "m", linear(2))
		h.create(t, "gone", linear(2))
		require.NoError(t, h.DeleteModel(context.Background(), "gone"))
		kept := h.predict(t, "m", 1, 2)
		must(h.Predict(context.Background(), "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: true, TTL: time.Second}))(t)
		steady.Now()
		m.move(0, year)
		steady.Now()
		m.move(2*time.Second, 0)
		until(t, h, "the prediction of a second does not expire", func() bool { return h.stats(t, "m").Pending <= 1 })
		if corrected {
			m.move(50*time.Minute, -year)
			steady.Now()
			m.move(50*time.Minute, 0)
			a := h.observe(t, "m", engine.Observation{PredictionID: kept.ID, Labels: []float64{1}})
			assert.EqualValues(t, 1, a[0].Sequence, a)
			assert.NoError(t, errOf(h.UndeleteModel(context.Background(), "gone")))
			continue
		}
		m.move(time.Hour, 0)
		until(t, h, "the prediction of a day does not expire", func() bool { return h.stats(t, "m").Pending == 0 })
		// UndeleteModel before the sweep that removes the model would bring it back.
		until(t, h, "the deleted model is not removed", func() bool {
			page, err := h.Engine.ListModels(t.Context(), engine.ListOptions{Deleted: true, Limit: 2})
			return err == nil && len(page.Models) == 1
		})
		assert.ErrorIs(t, errOf(h.UndeleteModel(context.Background(), "gone")), engine.ErrModelNotFound)
	}
}

// When the clock goes back, a model learns as before, its snapshots are written as
// before, the rate is that of what it learned, and predictions find their labels.
func TestClockGoesBack(t *testing.T) {
	c := newClock()
	h := startOn(t, newFS(), c, func(o *engine.Options) { o.SnapshotInterval = time.Minute })
	h.create(t, "m", linear(2))
	kept := h.predict(t, "m", 1, 2)
	h.observe(t, "m", engine.Observation{Features: []float64{1, 0}, Labels: []float64{1}, ObservationID: "o-1"})
	c.advance(-400 * 24 * time.Hour)
	answers := h.observe(t, "m",
		engine.Observation{PredictionID: kept.ID, Labels: []float64{1}},
		engine.Observation{Features: []float64{1, 0}, Labels: []float64{1}, ObservationID: "o-1"})
	assert.True(t, answers[0].Sequence == 2 && answers[1].Duplicate, "it answers %+v", answers)
	// A sweep may have come between the step of the clock and the second observation, and
	// have written what the model had then. The next snapshot is due after the interval.
	newest := func() uint64 {
		snapshots, err := h.ListSnapshots(t.Context(), "m")
		if err != nil || len(snapshots) == 0 {
			return 0
		}
		return snapshots[0].Sequence
	}
	until(t, h, "no snapshot is written after the clock went back", func() bool { return newest() > 0 })
	c.advance(time.Minute)
	until(t, h, "the snapshot of an interval later is not written", func() bool { return newest() == 2 })
	page, err := h.Engine.ListModels(context.Background(), engine.ListOptions{Limit: 1, Figures: true})
	assert.True(t, err == nil && len(page.Models) == 1 && page.Models[0].Figures.Rate >= 0 && page.Models[0].Figures.Rate <= 1, "%+v, %v", page, err)
}
