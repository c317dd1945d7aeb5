package engine_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/engine"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/snapshot"
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

func (noTimings) Predict(float64, string) {}
func (noTimings) Observe(float64, string) {}

// disk is what outlives the processes of a test.
type disk interface {
	// open gives the store of a process, and what ends it.
	open() (storage.Store, func() error, error)
}

// files is Pebble on a file system.
type files struct{ vfs.FS }

func (f files) open() (storage.Store, func() error, error) {
	s, err := store.Open(dataDir, store.Options{FS: f.FS})
	if err != nil {
		return nil, nil, fmt.Errorf("open the store: %w", err)
	}
	return s, s.Close, nil
}

// withLearners is a disk whose processes have learners of their own.
type withLearners struct {
	disk
	learners machine.Learners
}

// wrapped is a disk whose stores are wrapped.
type wrapped struct {
	disk
	wrap func(storage.Store) storage.Store
}

func (w wrapped) open() (storage.Store, func() error, error) {
	s, end, err := w.disk.open()
	if err != nil {
		return nil, nil, err
	}
	return w.wrap(s), end, nil
}

// isLong reports whether the long forms of the tests run.
func isLong() bool { return os.Getenv("HINDSIGHT_E2E") != "" }

// newDisk is an empty Pebble, in the long form of the tests below a replicated log.
func newDisk() disk {
	if isLong() {
		return newOrdered()
	}
	return files{newFS()}
}

// host is an engine over a store, as one process would run it.
type host struct {
	*engine.Engine
	store storage.Store
	end   func() error
	clock *clock
	once  sync.Once
}

type option func(*engine.Options)

// start runs a process over a disk; it ends with the test.
func start(t *testing.T, d disk, c *clock, options ...option) *host {
	t.Helper()
	return must(tryStart(t, d, c, options...))(t)
}

// startOn is start with Pebble over files.
func startOn(t *testing.T, fs vfs.FS, c *clock, options ...option) *host {
	t.Helper()
	return start(t, files{fs}, c, options...)
}

// after makes a snapshot due after so many observations. The clock of a test
// stands still, so that a replay is estimated by their count alone.
func after(observations int) option {
	return func(o *engine.Options) { o.SnapshotReplay = time.Duration(observations) * engine.ReadCost }
}

func tryStart(tb testing.TB, d disk, c *clock, options ...option) (*host, error) {
	tb.Helper()
	s, end, err := d.open()
	if err != nil {
		return nil, err
	}
	o := engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 1024, PendingLimit: 1000, PendingTotalLimit: 5000},
			Store:  s, Now: c.now, Log: zap.NewNop(),
			NewID:          func() (string, error) { return fmt.Sprint("p-", c.ids.Add(1)), nil },
			SnapshotReplay: 1 << 60, SnapshotInterval: time.Hour, SnapshotsKept: 3, LabelTTL: time.Hour,
		},
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {},
		Durability:    "sync", IDWindow: 24 * time.Hour, IDWindowMin: 1000, ModelLimit: 100_000, Sweep: time.Hour,
	}
	for _, set := range options {
		set(&o)
	}
	made := catalog.New
	if l, ok := d.(withLearners); ok {
		made = l.learners
	}
	e, err := engine.OpenWith(context.Background(), o, made)
	if err != nil {
		assert.NoError(tb, end())
		return nil, err
	}
	h := &host{Engine: e, store: s, end: end, clock: c}
	tb.Cleanup(func() { h.stop(tb) })
	return h, nil
}

// stop ends the process as SIGTERM would.
func (h *host) stop(tb testing.TB) {
	tb.Helper()
	h.once.Do(func() {
		assert.NoError(tb, h.Close())
		assert.NoError(tb, h.end())
	})
}

// abandon ends a process whose disk has failed, whose last snapshots fail too.
func (h *host) abandon() {
	h.once.Do(func() {
		_ = h.Close()
		_ = h.end()
	})
}

// loaded counts the models in memory.
func (h *host) loaded(t *testing.T) (n int) {
	t.Helper()
	page := must(h.Engine.ListModels(t.Context(), engine.ListOptions{Limit: 100_000, Figures: true}))(t)
	for _, m := range page.Models {
		if m.Figures.State == engine.StateLoaded {
			n++
		}
	}
	return n
}

// logging lets an engine log its errors to lines.
func logging() (o option, lines *observer.ObservedLogs) {
	core, lines := observer.New(zap.ErrorLevel)
	return func(o *engine.Options) { o.Log = zap.New(core) }, lines
}

// badSnapshots counts the log's lines about snapshots that cannot be used.
func badSnapshots(lines *observer.ObservedLogs) int {
	return lines.FilterMessage("a snapshot cannot be used; an older one and the log are").Len()
}

func newFS() *vfs.MemFS { return vfs.NewCrashableMem() }

func ptr[T any](v T) *T { return &v }

func taylor(dimension, degree int) model.Spec {
	return model.Spec{Dimension: dimension, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(degree)}}
}

func linear(dimension int) model.Spec {
	return model.Spec{Dimension: dimension, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}
}

func (h *host) create(tb testing.TB, id string, spec model.Spec) {
	tb.Helper()
	must(h.CreateModel(context.Background(), id, spec))(tb)
}

func (h *host) predict(t *testing.T, id string, x ...float64) engine.Prediction {
	t.Helper()
	p := must(h.Predict(context.Background(), id, vectors(x), engine.PredictOptions{Remember: true}))(t)
	return p[0]
}

func (h *host) observe(t *testing.T, id string, observations ...engine.Observation) []engine.Answer {
	t.Helper()
	for n := range observations {
		if observations[n].Weight == 0 {
			observations[n].Weight = 1
		}
	}
	return must(h.Observe(context.Background(), id, observations))(t)
}

func (h *host) stats(t *testing.T, id string) engine.Stats {
	t.Helper()
	return must(h.ModelStats(context.Background(), id, engine.StatsOptions{}))(t)
}

// newLearner is the catalogue's learner of a spec.
func newLearner(t *testing.T, spec model.Spec) model.Learner {
	t.Helper()
	return must(catalog.New(spec))(t)
}

func digestOf(state []byte) [32]byte { return snapshot.Digest(state) }

// vectors are rows of features.
func vectors(all ...[]float64) []engine.Row {
	rows := make([]engine.Row, len(all))
	for n, x := range all {
		rows[n].Features = x
	}
	return rows
}

// CreateModel is that of the engine, without options. So are the next ones.
func (h *host) CreateModel(ctx context.Context, id string, spec model.Spec) (engine.Info, error) {
	return h.Engine.CreateModel(ctx, id, spec, engine.CreateOptions{})
}

// DeleteModel deletes a model as the engine's options say.
func (h *host) DeleteModel(ctx context.Context, id string) error {
	_, err := h.Engine.DeleteModel(ctx, id, engine.DeleteOptions{})
	return err
}

// RestoreModel does not tell how much was undone.
func (h *host) RestoreModel(ctx context.Context, id string, sequence uint64) (engine.Info, error) {
	info, _, err := h.Engine.RestoreModel(ctx, id, sequence, false)
	return info, err
}

// ListModels lists in the order of ids.
func (h *host) ListModels(prefix, after string, limit int) ([]engine.Info, error) {
	o := engine.ListOptions{Prefix: prefix, Limit: limit}
	if after != "" {
		o.After = &engine.Cursor{ID: after}
	}
	page, err := h.Engine.ListModels(context.Background(), o)
	return page.Models, err
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

func errOf[T any](_ T, err error) error { return err }
