package engine_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strconv"
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
	_, err = h.CreateModel(context.Background(), "a", taylor(2, 4))
	assert.True(t, errors.Is(err, engine.ErrModelExists) && strings.HasSuffix(err.Error(), `.degree: got 4, want 3, as the existing model "a" has`), err)
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

func (h *host) watch(t *testing.T, id string, room int) *engine.Watcher {
	t.Helper()
	w := must(h.Watch(t.Context(), id, room))(t)
	t.Cleanup(w.Close)
	return w
}

// told are all observations that a watcher holds.
func told(w *engine.Watcher) (all []engine.Learned) {
	for {
		l, ok := w.Next()
		if !ok {
			return all
		}
		all = append(all, l)
	}
}

// A watcher is told what is learned, once; of more than it has room for, the newest,
// and how many were left out.
func TestWatch(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	learn(t, h, 0, 30)
	w, wide := h.watch(t, "m", 4), h.watch(t, "m", 100)
	require.Empty(t, told(w))
	at := h.clock.now().UnixNano()
	p := h.predict(t, "m", 1, 2)
	answers := h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{7}})
	h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{7}}) // Again: it is not learned.
	<-w.Changed()
	got := told(w)
	if len(got) != 1 || got[0].Sequence != 31 || got[0].Omitted != 0 || got[0].Time != at || got[0].Labels[0] != 7 ||
		!got[0].Served || got[0].Loss != answers[0].Loss {
		t.Fatalf("told %+v of %+v", got, answers)
	}
	learn(t, h, 50, 75) // One record.
	learn(t, h, 75, 77)
	got = told(w)
	require.True(t, len(got) == 4 && got[0].Sequence == 55 && got[0].Omitted == 23 && got[3].Sequence == 58 && got[1].Omitted+got[2].Omitted+got[3].Omitted == 0, "told %+v", got)
	got = told(wide)
	require.True(t, len(got) == 28 && got[0].Sequence == 31 && got[27].Sequence == 58, "told %d from %d on", len(got), got[0].Sequence)
	stats, err := w.Statistics(t.Context())
	if want := h.stats(t, "m"); err != nil || stats.Observations != 58 || stats.Regret != want.Regret || stats.Whole != want.Whole ||
		stats.Pending != want.Pending || stats.Digest != [32]byte{} || !math.IsNaN(stats.RegretUnpenalized) {
		t.Fatalf("%+v, %v; want %+v", stats, err, want)
	}
}

// The points of the history are told once, as they are complete: also when points have
// become longer in between.
func TestWatchedPoints(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	learn(t, h, 0, 10)
	w := h.watch(t, "m", 1)
	last := uint64(10)
	for n := 10; n < 1500; n += 7 {
		learn(t, h, n, n+7)
		points := must(w.Points(t.Context()))(t)
		for _, p := range points {
			begins := p.Sequence - uint64(p.Performance.Observations)
			require.True(t, begins <= last && p.Sequence > last, "a point from %d to %d after one to %d", begins, p.Sequence, last)
			last = p.Sequence
		}
	}
	want := h.history(t).Points
	assert.Equal(t, want[len(want)-2].Sequence, last)
}

// A model that leaves memory, or goes back, is watched on. One that is deleted is not,
// nor is another of its name.
func TestWatchedModelComesAndGoes(t *testing.T) {
	h := start(t, files{newFS()}, newClock(), func(o *engine.Options) { o.SnapshotsKept = 1000 })
	h.create(t, "m", linear(2))
	learn(t, h, 0, 20)
	w := h.watch(t, "m", 50)
	learn(t, h, 20, 25)
	must(w.Points(t.Context()))(t)
	h.hibernate(t)
	learn(t, h, 25, 28)
	got := told(w)
	require.True(t, len(got) == 8 && got[7].Sequence == 28, "told %+v", got)
	learn(t, h, 28, 30)
	must(h.RestoreModel(t.Context(), "m", 22))(t)
	<-w.Changed()
	learn(t, h, 40, 41)
	got = told(w)
	require.True(t, len(got) == 1 && got[0].Sequence == 23 && got[0].Omitted == 0, "told %+v after a restore", got)
	points, err := w.Points(t.Context())
	require.True(t, err == nil && len(points) == 1 && points[0].Sequence == 23, "told %+v after a restore, %v", points, err)
	require.NoError(t, w.Err())
	require.NoError(t, h.DeleteModel(t.Context(), "m"))
	<-w.Changed()
	assert.ErrorIs(t, w.Err(), engine.ErrModelNotFound)
	assert.ErrorIs(t, errOf(h.Watch(t.Context(), "m", 1)), engine.ErrModelNotFound)
	h.create(t, "m", linear(2))
	learn(t, h, 0, 5)
	assert.Empty(t, told(w))
}

func TestWatcherLimit(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	h.create(t, "n", linear(2))
	for k := range engine.WatcherLimit {
		h.watch(t, []string{"m", "n"}[k%2], 1)
	}
	assert.ErrorIs(t, errOf(h.Watch(t.Context(), "m", 1)), engine.ErrWatcherLimit)
	assert.ErrorIs(t, errOf(h.Watch(t.Context(), "missing", 1)), engine.ErrModelNotFound)
}

// Watchers that come, read and go while a model learns see each observation once, or
// omitted.
func TestWatchersAtOnce(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	const rounds = 600
	done := make(chan struct{})
	var group sync.WaitGroup
	for k := range 8 {
		w := h.watch(t, "m", 1+k)
		group.Go(func() {
			seen := uint64(0)
			count := func() {
				for _, l := range told(w) {
					seen += 1 + l.Omitted
					assert.True(t, l.Sequence == seen, "watcher %d: sequence %d after %d", k, l.Sequence, seen)
				}
			}
			for {
				select {
				case <-w.Changed():
					count()
				case <-done:
					count()
					assert.EqualValues(t, rounds, seen, "watcher %d has seen", k)
					return
				}
			}
		})
		group.Go(func() { // It comes and goes.
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				w, err := h.Watch(context.Background(), "m", 3)
				if err != nil {
					t.Error(err)
					return
				}
				assert.NoError(t, errOf(w.Statistics(context.Background())))
				assert.NoError(t, errOf(w.Points(context.Background())))
				w.Close()
			}
		})
	}
	for n := range rounds {
		h.observe(t, "m", engine.Observation{Features: []float64{1, float64(n)}, Labels: []float64{1}, ObservationID: strconv.Itoa(n)})
	}
	close(done)
	group.Wait()
}
