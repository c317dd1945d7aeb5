package engine_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// BenchmarkAtRest is so many small models that have learned and left memory: an operation is one model. It reports
// the heap of a model at rest, how long Each takes, and the latency of a prediction that loads a model.
func BenchmarkAtRest(b *testing.B) {
	e, s := openReal(b, b.TempDir())
	defer shut(b, e, s)
	before := liveHeap()
	share(b, 64, func(client int) func(n int) error {
		return func(n int) error {
			id := fmt.Sprintf("model-%d-%d", client, n)
			if _, err := e.CreateModel(b.Context(), id, model.Spec{Dimension: 10, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.CreateOptions{}); err != nil {
				return err
			}
			_, err := e.Observe(b.Context(), id, []engine.Observation{{Features: make([]float64, 10), Labels: []float64{1}, Weight: 1, ObservationID: "first"}})
			for tries := 1; err == nil && !e.Hibernate(id); tries++ {
				if tries%100 == 0 { // A slow replay needs a snapshot first.
					_, err = e.SnapshotModel(b.Context(), id)
				}
				time.Sleep(100 * time.Microsecond)
			}
			return err
		}
	})
	b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "heap-B/op")
	began, each := time.Now(), 0
	e.Each(func(*engine.Live) { each++ })
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(each), "each-ns/op")
	var wakes []time.Duration
	for n := range min(b.N/64, 1000) {
		began := time.Now()
		must(e.Predict(b.Context(), fmt.Sprintf("model-%d-%d", n%64, n), vectors(make([]float64, 10)), engine.PredictOptions{}))(b)
		wakes = append(wakes, time.Since(began))
	}
	if len(wakes) > 0 {
		slices.Sort(wakes)
		b.ReportMetric(float64(wakes[len(wakes)*99/100].Microseconds()), "wake-p99-µs")
	}
}

// liveHeap is the bytes of the heap that are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
