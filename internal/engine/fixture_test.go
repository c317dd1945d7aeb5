package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dataDir = "data"

// clock is a clock that the test moves. It also counts ids, so that no two
// processes of a test mint the same.
type clock struct{ nanoseconds, ids atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanoseconds.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanoseconds.Load()) }
func (c *clock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }

type noTimings struct{}

func (noTimings) Predict(float64) {}
func (noTimings) Observe(float64) {}

// host is an engine over a store in memory, as one process would run it.
type host struct {
	*engine.Engine
	store *store.Store
	fs    vfs.FS
	clock *clock
	once  sync.Once
}

type option func(*engine.Options)

// start runs a process over the files; it ends with the test.
func start(t *testing.T, fs vfs.FS, c *clock, options ...option) *host {
	t.Helper()
	h, err := tryStart(t, fs, c, options...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func tryStart(t *testing.T, fs vfs.FS, c *clock, options ...option) (*host, error) {
	t.Helper()
	s, err := store.Open(dataDir, store.Options{FS: fs})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	o := engine.Options{
		Store: s, Now: c.now, Log: zap.NewNop(),
		NewID:         func() (string, error) { return fmt.Sprint("p-", c.ids.Add(1)), nil },
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {},
		Durability:    "sync", SnapshotObservations: 1 << 40, SnapshotInterval: time.Hour, SnapshotsKept: 3,
		IDWindow: 24 * time.Hour, IDWindowMin: 1000, LabelTTL: time.Hour,
		Queue: 1024, PendingLimit: 1000, PendingTotalLimit: 5000, ModelLimit: 100_000, Sweep: time.Millisecond,
	}
	for _, set := range options {
		set(&o)
	}
	e, err := engine.Open(context.Background(), o)
	if err != nil {
		if closeErr := s.Close(); closeErr != nil {
			t.Error(closeErr)
		}
		return nil, err //nolint:wrapcheck // The test looks at it.
	}
	h := &host{Engine: e, store: s, fs: fs, clock: c}
	t.Cleanup(func() { h.stop(t) })
	return h, nil
}

// stop ends the process as SIGTERM would.
func (h *host) stop(t *testing.T) {
	t.Helper()
	h.once.Do(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func newFS() *vfs.MemFS { return vfs.NewCrashableMem() }

func ptr[T any](v T) *T { return &v }

func taylor(dimension, degree int) model.Spec {
	return model.Spec{Dimension: dimension, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(degree)}}
}

func linear(dimension int) model.Spec {
	return model.Spec{Dimension: dimension, LinearAWV: &model.LinearAWV{}}
}

func (h *host) create(t *testing.T, id string, spec model.Spec) {
	t.Helper()
	if _, err := h.CreateModel(context.Background(), id, spec); err != nil {
		t.Fatal(err)
	}
}

func (h *host) predict(t *testing.T, id string, x ...float64) engine.Prediction {
	t.Helper()
	p, err := h.Predict(context.Background(), id, [][]float64{x}, engine.PredictOptions{Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	return p[0]
}

func (h *host) observe(t *testing.T, id string, observations ...engine.Observation) []engine.Answer {
	t.Helper()
	for n := range observations {
		if observations[n].Weight == 0 {
			observations[n].Weight = 1
		}
	}
	answers, err := h.Observe(context.Background(), id, observations)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func (h *host) stats(t *testing.T, id string) engine.Stats {
	t.Helper()
	s, err := h.ModelStats(context.Background(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newLearner is the catalogue's learner of a spec.
func newLearner(t *testing.T, spec model.Spec) model.Learner {
	t.Helper()
	l, err := catalog.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func digestOf(state []byte) [32]byte { return codec.Digest(state) }
