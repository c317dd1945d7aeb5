package engine_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"hindsight/internal/engine"
)

// figures keeps what an engine tells of its stages and calls.
type figures struct {
	mu     sync.Mutex
	told   map[string]int
	traces map[string]bool
}

func newFigures() *figures { return &figures{told: map[string]int{}, traces: map[string]bool{}} }

func (f *figures) tell(what, trace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[what]++
	if trace != "" {
		f.traces[what+" "+trace] = true
	}
}

func (f *figures) Queue(_ float64, trace string)   { f.tell("queue", trace) }
func (f *figures) Learn(_ float64, trace string)   { f.tell("learn", trace) }
func (f *figures) Predict(_ float64, trace string) { f.tell("predict", trace) }
func (f *figures) Observe(_ float64, trace string) { f.tell("observe", trace) }

func (f *figures) Commit(_ float64, trace string) { f.tell("commit", trace) }

func (f *figures) options(o *engine.Options) {
	o.Stages = f
	o.Timings = func(string, string) engine.Timings { return f }
}

// live is what a scrape reads of a model.
func (h *host) live(t *testing.T, id string) (found engine.Live) {
	t.Helper()
	h.Each(func(l *engine.Live) {
		if l.ID == id {
			found = *l
		}
	})
	require.True(t, found.ID != "", "no model %q", id)
	return found
}

func TestFiguresOfObservations(t *testing.T) {
	f := newFigures()
	h := start(t, files{newFS()}, newClock(), f.options)
	h.create(t, "m", linear(1))
	o := engine.Observation{Features: []float64{1}, Labels: []float64{2}, ObservationID: "a"}
	h.observe(t, "m", o)
	h.observe(t, "m", o)
	h.observe(t, "m", o, engine.Observation{Features: []float64{2}, Labels: []float64{3}})
	o.Labels, o.Weight = []float64{3}, 1
	_, err := h.Observe(t.Context(), "m", []engine.Observation{o})
	require.ErrorIs(t, err, engine.ErrConflict)
	l := h.live(t, "m")
	if l.Observations != 2 || l.Duplicates != 2 || l.PendingLimit != 1000 || l.Behind != -1 {
		t.Errorf("%d observations, %d duplicates, limit %d, behind %d", l.Observations, l.Duplicates, l.PendingLimit, l.Behind)
	}
	h.stop(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	// Of four calls two brought something to learn.
	for what, want := range map[string]int{"queue": 4, "commit": 2, "learn": 2, "observe": 4} {
		assert.Equal(t, want, f.told[what], what)
	}
	assert.Equal(t, 0, len(f.traces), f.traces)
}

func TestFiguresOfSnapshotsAndRecovery(t *testing.T) {
	fs, c := newFS(), newClock()
	h := startOn(t, fs, c)
	h.create(t, "m", linear(1))
	for n := range 5 {
		h.observe(t, "m", engine.Observation{Features: []float64{float64(n)}, Labels: []float64{1}})
	}
	begun := c.now()
	l := h.live(t, "m")
	assert.True(t, l.Unsnapshotted == 5 && l.SnapshotTime.Equal(begun), "without a snapshot: %d observations beyond %v", l.Unsnapshotted, l.SnapshotTime)
	c.advance(time.Minute)
	must(h.SnapshotModel(t.Context(), "m"))(t)
	for range 3 {
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
	}
	l = h.live(t, "m")
	assert.True(t, l.Unsnapshotted == 3 && l.SnapshotTime.Equal(c.now()), "with a snapshot: %d observations beyond %v", l.Unsnapshotted, l.SnapshotTime)
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	h.stop(t)
	h = startOn(t, cut, c)
	h.stats(t, "m")
	l = h.live(t, "m")
	assert.EqualValues(t, 3, l.Unsnapshotted, "after a crash observations beyond the snapshot")
	for !h.Totals().StartDone.Load() {
		runtime.Gosched()
	}
	all := h.Totals()
	assert.True(t, all.Started.Load() == 1 && all.StartFailed.Load() == 0 && all.Replayed.Load() == 3 && all.SnapshotFailures.Load() == 0, "after a crash: %+v", all)
}

func TestFiguresOfFollowers(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	must(h.SetAlias(t.Context(), "current", "leader", ""))(t)
	h.feed(t, 0, 10)
	h.caughtUp(t, "leader")
	leader, shadow := h.live(t, "leader").Behind, h.live(t, "shadow").Behind
	assert.True(t, leader == -1 && shadow == 0, "the leader is %d behind, its follower %d", leader, shadow)
}

// A call whose trace is sampled has spans for its stages, and its trace is told. Another
// one has none.
func TestSpansOfAnObservation(t *testing.T) {
	f, spans := newFigures(), tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
	h := start(t, files{newFS()}, newClock(), f.options)
	h.create(t, "m", linear(1))
	ctx, root := tracer.Start(t.Context(), "root")
	observe := func(ctx context.Context) {
		t.Helper()
		must(h.Observe(ctx, "m", []engine.Observation{{Features: []float64{1}, Labels: []float64{2}, Weight: 1}}))(t)
	}
	observe(ctx)
	observe(t.Context())
	must(h.Predict(ctx, "m", vectors([]float64{1}), engine.PredictOptions{Remember: true}))(t)
	root.End()
	h.stop(t)
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
		assert.True(t, s.Name() == "root" || s.Parent().SpanID() == root.SpanContext().SpanID(), "%s is no child", s.Name())
		assert.False(t, s.EndTime().Before(s.StartTime()), "%s ends before it starts", s.Name())
	}
	assert.Equal(t, []string{"queue", "commit", "learn", "remember", "root"}, names)
	id := root.SpanContext().TraceID().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, what := range []string{"queue", "commit", "learn", "observe", "predict"} {
		assert.True(t, f.traces[what+" "+id], "%s was not told the trace", what)
	}
}

// Without a trace, and in one that is not sampled, nothing is allocated.
func TestNoTraceAllocatesNothing(t *testing.T) {
	never := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("test")
	dropped, span := never.Start(t.Context(), "dropped")
	defer span.End()
	for name, ctx := range map[string]context.Context{"none": t.Context(), "not sampled": dropped} {
		if n := testing.AllocsPerRun(100, func() {
			if engine.TraceID(ctx) != "" {
				panic(name) // An assertion allocates.
			}
			engine.Begin(ctx, "child").End()
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
