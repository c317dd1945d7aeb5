package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/engine"
	past "hindsight/internal/engine/account/history"
	"hindsight/internal/model"
	"hindsight/internal/model/snapshot"
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
	require.ErrorIs(t, errOf(h.Observe(t.Context(), "m", []engine.Observation{o})), engine.ErrConflict)
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

// hostile is a stream with a switch, labels of growing size, repeated inputs and weights.
func hostile(seed uint64, n int, weights bool) []engine.Observation {
	rng := rand.New(rand.NewPCG(seed, 5))
	all := make([]engine.Observation, n)
	for i := range all {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		if i%7 == 3 {
			x = all[i-1].Features
		}
		y := math.Sin(2*x[0]) - x[1]
		if i > n/2 {
			y = -y
		}
		if i%11 == 5 {
			y *= 3
		}
		all[i] = engine.Observation{Features: x, Labels: []float64{y}, Weight: 1}
		if weights {
			all[i].Weight = math.Exp(rng.NormFloat64()) / 4
		}
	}
	return all
}

func recent(t *testing.T, h *host) engine.Stats {
	t.Helper()
	return must(h.ModelStats(t.Context(), "m", engine.StatsOptions{Recent: true}))(t)
}

// The regret on the last rounds is the regret against ridge regression on their rows alone, by normal equations.
func TestRecentRegretIsThatOfTheRows(t *testing.T) {
	h := start(t, newDisk(), newClock())
	lambda, forgetting := 0.5, 0.95
	h.create(t, "m", model.Spec{Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda, Forgetting: &forgetting}})
	stream := hostile(1, 150, true)
	var losses []float64
	for _, o := range stream {
		losses = append(losses, h.observe(t, "m", o)[0].Loss)
	}
	s := recent(t, h)
	require.True(t, len(s.RecentRegret) == 5 && s.RecentRegret[4].Rounds == 150, "windows %+v", s.RecentRegret)
	for k, w := range s.RecentRegret {
		assert.True(t, k >= 4 || w.Rounds == 16<<k, "window %d of %d rounds", k, w.Rounds)
		gram, right, loss, energy := mat.NewSymDense(3, []float64{lambda, 0, 0, 0, lambda, 0, 0, 0, lambda}), mat.NewVecDense(3, nil), 0.0, 0.0
		for n := 150 - w.Rounds; n < 150; n++ {
			z := mat.NewVecDense(3, append(append([]float64{}, stream[n].Features...), 1))
			weight, y := stream[n].Weight, stream[n].Labels[0]
			gram.SymRankOne(gram, weight, z)
			right.AddScaledVec(right, weight*y, z)
			loss, energy = loss+losses[n], energy+weight*y*y
		}
		var g mat.VecDense
		require.NoError(t, g.SolveVec(gram, right))
		if want := loss - (energy - mat.Dot(right, &g)); math.Abs(w.Regret()-want) > 1e-9*energy || math.Abs(w.Loss-loss) > 1e-9*loss || w.Gap != 0 {
			t.Errorf("last %d: regret %g, loss %g; want %g, %g", w.Rounds, w.Regret(), w.Loss, want, loss)
		}
	}
	assert.Nil(t, h.stats(t, "m").RecentRegret, "a report that does not ask for the recent regret has it")
}

// Rows that a label gate sets aside are no rounds, and after a restore or a cut of the log the report is of
// what the log has.
func TestRecentRegretOfLearnedRows(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
	aside := 0
	for n, o := range hostile(4, 400, false) {
		if n == 350 || n == 370 {
			o.Labels[0] = 1e6
		}
		if h.observe(t, "m", o)[0].SetAside {
			aside++
		}
	}
	s := recent(t, h)
	w := s.RecentRegret[len(s.RecentRegret)-1]
	assert.False(t, aside != 2 || w.Rounds != 398 || w.Loss > 1e6 || math.Abs(w.Regret()-s.Regret) > 1e-8*w.Loss, "%d set aside, %+v, regret %g", aside, w, s.Regret)
	must(h.RestoreModel(t.Context(), "m", 100))(t)
	s = recent(t, h)
	assert.Equal(t, 100, s.RecentRegret[len(s.RecentRegret)-1].Rounds, "after a restore %+v", s.RecentRegret)
}

// The served regret that a scrape shows of a learner whose regret is solved now and
// then is of the state that was solved, as the regret is.
func TestServedRegretIsOfOneState(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{}})
	late := func(n int) {
		var waiting []engine.Prediction
		for range n { // Served before any of their labels came.
			p := must(h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true}))(t)
			waiting = append(waiting, p[0])
		}
		for _, p := range waiting {
			h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{1}, Weight: 1})
		}
	}
	late(5)
	solved := h.stats(t, "m")
	excess := solved.ServedRegret - solved.Regret
	require.True(t, excess != 0 && !math.IsNaN(excess), "the late labels left no trace: %g", excess)
	late(5)
	h.Each(func(l *engine.Live) {
		assert.True(t, l.Regret == solved.Regret && l.ServedRegret == solved.ServedRegret, "regret %g, served %g; want %g, %g", l.Regret, l.ServedRegret, solved.Regret, solved.ServedRegret)
	})
}

// With labels that come late the certificate is none of what was served: served regret exceeds
// it, and stays below certificate + Σ ((y−s)² − (y−ŷ)²), s the served prediction and ŷ the
// prequential one. Both are computed from the rows, by a dense system a prediction.
func TestServedCertificateOfLateLabels(t *testing.T) {
	const rounds, late = 60, 15
	lambda := 1.0
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda}})
	rows := make([][2]float64, rounds) // Labels near 1, of which the first late predictions say 0.
	for n := range rows {
		rows[n] = [2]float64{math.Sin(float64(n)), 1 + math.Sin(7*float64(n))/10}
	}
	var waiting []engine.Prediction
	for n := range rounds {
		p := must(h.Predict(t.Context(), "m", vectors([]float64{rows[n][0]}), engine.PredictOptions{Remember: true}))(t)
		if waiting = append(waiting, p[0]); n >= late {
			h.observe(t, "m", engine.Observation{PredictionID: waiting[n-late].ID, Labels: []float64{rows[n-late][1]}, Weight: 1})
		}
	}
	for n := rounds - late; n < rounds; n++ {
		h.observe(t, "m", engine.Observation{PredictionID: waiting[n].ID, Labels: []float64{rows[n][1]}, Weight: 1})
	}
	certificate, loss, served := 0.0, 0.0, 0.0
	for n, row := range rows {
		now, h := leastSquares(rows[:n], row[0], lambda)
		then, _ := leastSquares(rows[:max(0, n-late)], row[0], lambda)
		y := row[1]
		certificate, loss, served = certificate+y*y*h, loss+(y-now)*(y-now), served+(y-then)*(y-then)
	}
	s := h.stats(t, "m")
	want := certificate + served - loss
	if math.Abs(s.ServedCertificate-want) > 1e-9*want || math.Abs(s.ServedRegret-(served-s.HindsightLoss)) > 1e-9*served {
		t.Errorf("served certificate %g, want %g; served regret %g, want %g", s.ServedCertificate, want, s.ServedRegret, served-s.HindsightLoss)
	}
	if !s.Certified || s.ServedRegret > s.ServedCertificate || s.ServedRegret <= s.Certificate {
		t.Errorf("certificate %g, served %g; regret %g, served %g", s.Certificate, s.ServedCertificate, s.Regret, s.ServedRegret)
	}
	h.Each(func(l *engine.Live) {
		assert.True(t, l.ServedFigures == s.ServedFigures, "a scrape has %+v, want %+v", l.ServedFigures, s.ServedFigures)
	})
}

// leastSquares is what the forecaster predicts for (x, 1) after rows, with the input in A, and
// its leverage: zᵀA⁻¹b and zᵀA⁻¹z, A = λI + Σzzᵀ over the rows and z.
func leastSquares(rows [][2]float64, x, lambda float64) (prediction, leverage float64) {
	a, b, c, u, v := lambda+x*x, x, lambda+1.0, 0.0, 0.0
	for _, row := range rows {
		a, b, c = a+row[0]*row[0], b+row[0], c+1
		u, v = u+row[0]*row[1], v+row[1]
	}
	det := a*c - b*b
	w, constant := (c*x-b)/det, (a-b*x)/det // A⁻¹z.
	return w*u + constant*v, w*x + constant
}

func (h *host) history(t *testing.T) engine.History {
	t.Helper()
	return must(h.ModelHistory(context.Background(), "m"))(t)
}

// learn lets the model m learn observations in batches, an hour after one another.
// From the half on the labels are others by much.
func learn(t *testing.T, h *host, from, to int) {
	t.Helper()
	const batch = 25
	for ; from < to; from += batch {
		rows := make([]engine.Observation, min(batch, to-from))
		for n := range rows {
			rng := rand.New(rand.NewPCG(uint64(from+n), 9))
			x := []float64{rng.NormFloat64(), rng.NormFloat64()}
			y := x[0] + 0.1*rng.NormFloat64()
			if (from+n)%1500 >= 750 {
				y *= 30
			}
			rows[n] = engine.Observation{Features: x, Labels: []float64{y}, Weight: 1, ObservationID: fmt.Sprint("o-", from+n)}
		}
		h.observe(t, "m", rows...)
		h.clock.advance(time.Hour)
	}
}

// A classifier has its errors and scores, and no baselines of losses.
func TestHistoryOfClasses(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 2, Classes: &model.Classes{MaxClasses: ptr(3)}, RLSC: &model.RLSC{}})
	rng := rand.New(rand.NewPCG(2, 3))
	for range 700 {
		class := rng.IntN(3)
		h.observe(t, "m", engine.Observation{Features: cluster(rng, class), Class: strconv.Itoa(class), Weight: 1})
	}
	errs, logLoss, loss := 0.0, 0.0, 0.0
	for _, p := range h.history(t).Points {
		errs, logLoss, loss = errs+p.Classes.Served.Errors, logLoss+p.Classes.Prequential.LogLoss, loss+p.Performance.Served.Loss
	}
	s := h.stats(t, "m")
	if whole := s.ClassAccount.Whole; errs != whole.Served.Errors || math.Abs(logLoss-whole.Prequential.LogLoss) > 1e-5*logLoss || math.Abs(loss-s.Whole.Served.Loss) > 1e-5*loss {
		t.Errorf("%g errors, log-loss %g, loss %g; want %+v, %+v", errs, logLoss, loss, whole, s.Whole)
	}
}

// A history that is not that of its model is rejected with its snapshot.
func TestForeignHistoryIsRejected(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	learn(t, h, 0, 50)
	data := must(h.ExportModel(t.Context(), "m", engine.ExportOptions{WithoutIDs: true}))(t)
	for what, kept := range map[string][]byte{
		"nothing": {}, "noise": {1, 2, 3}, "of another sequence": past.New(past.Shape{}, 7, nil).Append(nil),
		"of classes": past.New(past.Shape{Classes: true}, 50, nil).Append(nil),
	} {
		s := must(snapshot.Decode(data))(t)
		s.History = kept
		bad := must(snapshot.Encode(s))(t)
		assert.ErrorIs(t, errOf(h.ImportModel(t.Context(), "other", bad)), engine.ErrInvalidRequest, what)
	}
}
