package kons_test

import (
	"math"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

// BenchmarkRound measures a round over 50 frequencies beside one of the forecaster over
// the same features, in turn. It reports the ratios of the shortest rounds, so that
// other work on the machine does not count, and fails above most.
func BenchmarkRound(b *testing.B) {
	learners := []struct {
		name    string
		l       model.Learner
		largest float64
	}{
		{"fourier_awv", awv.New(waves(8, 50), awv.Options{Lambda: 1}), math.Inf(1)},
		{"kons", kons.New(waves(8, 50), kons.Options{Alpha: 1, Low: -8, High: 8}), 1.5},
		{"kons, logistic", kons.New(waves(8, 50), kons.Options{Alpha: 0.01, Loss: losses.Logistic, Clip: 5}), 1.5},
		{"kons with regret", kons.New(waves(8, 50), kons.Options{Alpha: 1, Low: -8, High: 8, TrackRegret: true}), 2.25},
	}
	samples := modeltest.Samples(1, 8, 256)
	var o model.Outcome
	signs, labels := make([]float64, 1), make([]float64, 1)
	shortest := []float64{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for k := range learners {
			from := b.Elapsed()
			for range 16 {
				s := &samples[n%len(samples)]
				y := labels
				if y[0] = s.Y; k == 2 {
					y = signs
					y[0] = sign(s.Y)
				}
				_ = learners[k].l.Observe(&o, s.X, y, 1)
				n++
			}
			shortest[k] = min(shortest[k], (b.Elapsed()-from).Seconds()/16)
		}
	}
	b.ReportMetric(shortest[0]*1e9, "ns/forecaster")
	for k := range learners[1:] {
		ratio := shortest[k+1] / shortest[0]
		b.Logf("%s: %.2f times %s", learners[k+1].name, ratio, learners[0].name)
		if ratio > learners[k+1].largest && b.N > 100 {
			b.Errorf("%s costs %.2f times as much", learners[k+1].name, ratio)
		}
	}
	b.ReportMetric(0, "ns/op") // Of no meaning.
}
