package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// timed is a learner that keeps how long each observation took. It hides what else the learner can do.
type timed struct {
	model.Learner
	took *[]time.Duration
}

func (t timed) Observe(o *model.Outcome, x, labels []float64, weight float64) error {
	began := time.Now()
	err := t.Learner.Observe(o, x, labels, weight)
	*t.took = append(*t.took, time.Since(began))
	return err
}

// slowCopy is a learner whose copy calls copying before it ends.
type slowCopy struct {
	model.Learner
	copying func()
}

func (s slowCopy) AppendBinary(dst []byte) ([]byte, error) {
	s.copying()
	return s.Learner.AppendBinary(dst)
}

// TestPredictBesideACopy: a prediction waits neither for the copy of the state that a report takes, nor for the
// observation that waits for the copy.
func TestPredictBesideACopy(t *testing.T) {
	var reports atomic.Bool
	begun, answered := make(chan struct{}), make(chan struct{})
	learners := func(s model.Spec) (model.Learner, error) {
		l, err := catalog.New(s)
		return slowCopy{l, func() {
			if reports.CompareAndSwap(true, false) {
				close(begun)
				select {
				case <-answered:
				case <-time.After(10 * time.Second):
					t.Error("a prediction waits for the copy of a report")
				}
			}
		}}, err
	}
	h := start(t, withLearners{files{newFS()}, learners}, newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("0", 1)...)
	reports.Store(true)
	var others sync.WaitGroup
	others.Go(func() { h.stats(t, "m") })
	<-begun
	others.Go(func() { h.observe(t, "m", one("1", 1)...) })
	time.Sleep(50 * time.Millisecond) // The observation waits.
	h.predict(t, "m", 1)
	close(answered)
	others.Wait()
}

// BenchmarkPredictBesideWrites is a prediction every millisecond beside calls of 64 observations at full rate of the same
// model. It reports quantiles of the predictions beside the longest observation of the learner, and its 99th percentile.
// Both sides are in one process: on a machine with few cores the clients of a server would measure the scheduler.
func BenchmarkPredictBesideWrites(b *testing.B) {
	for name, spec := range map[string]model.Spec{"auto": {Dimension: 12, Auto: &model.Auto{}}, "taylor": taylor(10, 3)} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			learners := func(s model.Spec) (model.Learner, error) {
				l, err := catalog.New(s)
				return timed{l, &took}, err
			}
			h := must(tryStart(b, withLearners{files{newFS()}, learners}, newClock()))(b)
			h.create(b, "m", spec)
			var stop atomic.Bool
			var writers sync.WaitGroup
			for range 2 {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(1, 2))
					rows := make([]engine.Observation, 64)
					for !stop.Load() {
						for n := range rows {
							x := make([]float64, spec.Dimension)
							for k := range x {
								x[k] = rng.NormFloat64()
							}
							rows[n] = engine.Observation{Features: x, Labels: []float64{x[0]}, Weight: 1}
						}
						if _, err := h.Observe(b.Context(), "m", rows); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			var waits []time.Duration
			for b.Loop() {
				time.Sleep(time.Millisecond)
				began := time.Now()
				must(h.Predict(b.Context(), "m", vectors(make([]float64, spec.Dimension)), engine.PredictOptions{}))(b)
				waits = append(waits, time.Since(began))
			}
			stop.Store(true)
			writers.Wait()
			quantile := func(all []time.Duration, q float64) float64 {
				slices.Sort(all)
				return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1e3
			}
			for _, q := range []float64{0.5, 0.99, 1} {
				b.ReportMetric(quantile(waits, q), fmt.Sprintf("predict-p%g-µs", 100*q))
			}
			b.ReportMetric(quantile(took, 0.99), "observe-p99-µs")
			b.ReportMetric(quantile(took, 1), "observe-p100-µs")
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "observations/s")
		})
	}
}
