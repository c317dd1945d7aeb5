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
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return openOver(b, s), s
}

// openOver is an engine over a store.
func openOver(b *testing.B, s *store.Store) *engine.Engine {
	b.Helper()
	e, err := engine.Open(b.Context(), engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 100_000, PendingLimit: 1000, PendingTotalLimit: 1000},
			Store:  s, Now: time.Now, Log: zap.NewNop(), NewID: func() (string, error) { return "", nil },
			SnapshotReplay: 1 << 60, SnapshotInterval: time.Hour, SnapshotsKept: 3, LabelTTL: time.Hour,
		},
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {},
		Durability:    "sync", IDWindow: 24 * time.Hour, IDWindowMin: 1000, ModelLimit: 1_000_000, Sweep: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
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
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		data := make([]byte, 120)
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("store/%d", clients), func(b *testing.B) {
			e, s := openReal(b, b.TempDir())
			defer shut(b, e, s)
			data := make([]byte, 120)
			share(b, clients, func(client int) func(n int) error {
				m, err := s.Create(b.Context(), fmt.Sprint("m", client), nil)
				if err != nil {
					b.Fatal(err)
				}
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
					if _, err := e.CreateModel(b.Context(), fmt.Sprint("m", n), model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
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
	if _, err := e.CreateModel(b.Context(), "m", model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	const batch = 500
	for n := 0; n < observations; n += batch {
		rows := make([]engine.Observation, batch)
		for k := range rows {
			rows[k] = engine.Observation{
				Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: fmt.Sprintf("o-%d", n+k),
			}
		}
		if _, err := e.Observe(b.Context(), "m", rows); err != nil {
			b.Fatal(err)
		}
	}
	shut(b, e, s)
	snapshots := filepath.Join(dir, "snapshots")
	b.ResetTimer()
	for n := 0; n < b.N; n += observations {
		b.StopTimer()
		if err := os.RemoveAll(snapshots); err != nil {
			b.Fatal(err)
		}
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
		if _, err := e.CreateModel(b.Context(), fmt.Sprint("m", n), model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		for k := range 100 {
			o := engine.Observation{Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: strconv.Itoa(k)}
			if _, err := e.Observe(b.Context(), fmt.Sprint("m", n), []engine.Observation{o}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprintf("snapshot=%v", !kept), func(b *testing.B) {
			if !kept {
				if _, err := e.SnapshotModel(b.Context(), "m0"); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				b.StopTimer()
				for end := time.Now().Add(time.Minute); !e.Hibernate("m0"); runtime.Gosched() {
					if time.Now().After(end) {
						b.Fatal("m0 stays in memory")
					}
				}
				b.StartTimer()
				if _, err := e.Predict(b.Context(), "m0", vectors(make([]float64, 10)), engine.PredictOptions{}); err != nil {
					b.Fatal(err)
				}
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
			if _, err := e.CreateModel(b.Context(), "m", model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			for range watchers {
				w, err := e.Watch(b.Context(), "m", 100)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
			}
			batch := make([]engine.Observation, 100)
			for n := range batch {
				batch[n] = engine.Observation{Features: make([]float64, 10), Labels: []float64{1}, Weight: 1}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Observe(b.Context(), "m", batch); err != nil {
					b.Fatal(err)
				}
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
				if _, err := e.CreateModel(b.Context(), fmt.Sprint("m", n), spec, o); err != nil {
					b.Fatal(err)
				}
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
