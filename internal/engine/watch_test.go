package engine_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

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
