package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/store"
)

// openReal is an engine on the file system.
func openReal(b *testing.B, dir string) (*engine.Engine, *store.Store) {
	b.Helper()
	s := must(store.Open(dir, store.Options{}))(b)
	return openOver(b, s), s
}

// openOver is an engine over a store.
func openOver(b *testing.B, s *store.Store) *engine.Engine {
	b.Helper()
	e := must(engine.Open(b.Context(), engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 100_000, PendingLimit: 1000, PendingTotalLimit: 1000},
			Store:  s, Now: time.Now, Log: zap.NewNop(), NewID: func() (string, error) { return "", nil },
			SnapshotReplay: 1 << 60, SnapshotInterval: time.Hour, SnapshotsKept: 3, LabelTTL: time.Hour,
		},
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {},
		Durability:    "sync", IDWindow: 24 * time.Hour, IDWindowMin: 1000, ModelLimit: 1_000_000, Sweep: time.Hour,
	}))(b)
	return e
}

func shut(b *testing.B, e *engine.Engine, s *store.Store) {
	b.Helper()
	for _, c := range []func() error{e.Close, s.Close} {
		if err := c(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkDurable is acknowledged observations by so many clients, of one
// model or of one each, beside durable appends by as many writers to the store
// alone and a bare write and fsync: an operation is one of them.
func BenchmarkDurable(b *testing.B) {
	b.Run("write+fsync", func(b *testing.B) {
		f := must(os.Create(filepath.Join(b.TempDir(), "log")))(b)
		defer func() { _ = f.Close() }()
		data := make([]byte, 120)
		for b.Loop() {
			must(f.Write(data))(b)
			noError(b, f.Sync())
		}
	})
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("store/%d", clients), func(b *testing.B) {
			e, s := openReal(b, b.TempDir())
			defer shut(b, e, s)
			data := make([]byte, 120)
			share(b, clients, func(client int) func(n int) error {
				m := must(s.Create(b.Context(), fmt.Sprint("m", client), nil))(b)
				return func(n int) error {
					return m.Append(b.Context(), storage.Commit{Record: storage.Record{First: uint64(n + 1), Last: uint64(n + 1), Data: data}})
				}
			})
		})
		for _, models := range slices.Compact([]int{1, clients}) {
			b.Run(fmt.Sprintf("observe/%d/models=%d", clients, models), func(b *testing.B) {
				e, s := openReal(b, b.TempDir())
				defer shut(b, e, s)
				for n := range models {
					must(e.CreateModel(b.Context(), fmt.Sprint("m", n), model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}))(b)
				}
				share(b, clients, func(client int) func(n int) error {
					id := fmt.Sprint("m", client%models)
					return func(n int) error {
						_, err := e.Observe(context.Background(), id, []engine.Observation{{
							Features: make([]float64, 10), Labels: []float64{1}, Weight: 1,
							ObservationID: fmt.Sprintf("%d-%d", client, n),
						}})
						return err
					}
				})
			})
		}
	}
}

// share does b.N operations, spread over so many clients.
func share(b *testing.B, clients int, begin func(client int) func(n int) error) {
	b.Helper()
	operations := make([]func(n int) error, clients)
	for client := range clients {
		operations[client] = begin(client)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for n := range (b.N + client) / clients {
				if err := operations[client](n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
}

// BenchmarkRecovery is the recovery of a model from its log alone: an operation
// is one observation. The ids were remembered, or were not and are again.
func BenchmarkRecovery(b *testing.B) {
	const observations = 50_000
	dir := b.TempDir()
	e, s := openReal(b, dir)
	must(e.CreateModel(b.Context(), "m", model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}))(b)
	const batch = 500
	for n := 0; n < observations; n += batch {
		rows := make([]engine.Observation, batch)
		for k := range rows {
			rows[k] = engine.Observation{
				Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: fmt.Sprintf("o-%d", n+k),
			}
		}
		must(e.Observe(b.Context(), "m", rows))(b)
	}
	shut(b, e, s)
	snapshots := filepath.Join(dir, "snapshots")
	b.ResetTimer()
	for n := 0; n < b.N; n += observations {
		b.StopTimer()
		noError(b, os.RemoveAll(snapshots))
		b.StartTimer()
		e, s := openReal(b, dir)
		if stats, err := e.ModelStats(b.Context(), "m", engine.StatsOptions{}); err != nil || stats.Observations != observations {
			b.Fatalf("%d observations, %v", stats.Observations, err)
		}
		b.StopTimer()
		shut(b, e, s)
		b.StartTimer()
	}
}

// BenchmarkWake is a prediction of a model that is not in memory.
func BenchmarkWake(b *testing.B) {
	e, s := openReal(b, b.TempDir())
	defer shut(b, e, s)
	for n := range 2 {
		must(e.CreateModel(b.Context(), fmt.Sprint("m", n), model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}))(b)
		for k := range 100 {
			o := engine.Observation{Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: strconv.Itoa(k)}
			must(e.Observe(b.Context(), fmt.Sprint("m", n), []engine.Observation{o}))(b)
		}
	}
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprintf("snapshot=%v", !kept), func(b *testing.B) {
			if !kept {
				must(e.SnapshotModel(b.Context(), "m0"))(b)
			}
			for b.Loop() {
				b.StopTimer()
				for end := time.Now().Add(time.Minute); !e.Hibernate("m0"); runtime.Gosched() {
					if time.Now().After(end) {
						b.Fatal("m0 stays in memory")
					}
				}
				b.StartTimer()
				must(e.Predict(b.Context(), "m0", vectors(make([]float64, 10)), engine.PredictOptions{}))(b)
			}
		})
	}
}

// BenchmarkWatched is a call of 100 observations of a model with so many watchers, none of which
// reads.
func BenchmarkWatched(b *testing.B) {
	for _, watchers := range []int{0, 1, engine.WatcherLimit} {
		b.Run(strconv.Itoa(watchers), func(b *testing.B) {
			e, s := openReal(b, b.TempDir())
			defer shut(b, e, s)
			must(e.CreateModel(b.Context(), "m", model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}))(b)
			for range watchers {
				w := must(e.Watch(b.Context(), "m", 100))(b)
				defer w.Close()
			}
			batch := make([]engine.Observation, 100)
			for n := range batch {
				batch[n] = engine.Observation{Features: make([]float64, 10), Labels: []float64{1}, Weight: 1}
			}
			b.ReportAllocs()
			for b.Loop() {
				must(e.Observe(b.Context(), "m", batch))(b)
			}
		})
	}
}

// BenchmarkFollowed is acknowledged observations of 16 clients of one model, which so many
// others follow.
func BenchmarkFollowed(b *testing.B) {
	for _, followers := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			e, s := openReal(b, b.TempDir())
			defer shut(b, e, s)
			spec := model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}
			for n := range followers + 1 {
				o := engine.CreateOptions{}
				if n > 0 {
					o.Follows = "m0"
				}
				must(e.CreateModel(b.Context(), fmt.Sprint("m", n), spec, o))(b)
			}
			share(b, 16, func(client int) func(n int) error {
				return func(n int) error {
					_, err := e.Observe(context.Background(), "m0", []engine.Observation{{
						Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: fmt.Sprintf("%d-%d", client, n),
					}})
					return err
				}
			})
		})
	}
}
