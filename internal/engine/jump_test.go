package engine_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	steadyclock "hindsight/internal/clock"
	"hindsight/internal/engine"
)

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

// until sweeps until a condition holds that the upkeep of the engine brings about.
func until(t *testing.T, h *host, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); runtime.Gosched() {
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
			_, err := h.UndeleteModel(context.Background(), "gone")
			assert.NoError(t, err)
			continue
		}
		m.move(time.Hour, 0)
		until(t, h, "the prediction of a day does not expire", func() bool { return h.stats(t, "m").Pending == 0 })
		// UndeleteModel before the sweep that removes the model would bring it back.
		until(t, h, "the deleted model is not removed", func() bool {
			page, err := h.Engine.ListModels(t.Context(), engine.ListOptions{Deleted: true, Limit: 2})
			return err == nil && len(page.Models) == 1
		})
		_, err := h.UndeleteModel(context.Background(), "gone")
		assert.ErrorIs(t, err, engine.ErrModelNotFound)
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
