package kons_test

import (
	"fmt"
	"math"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/modeltest"
)

// BenchmarkHeavy measures the longest round from a weight that becomes Ω on, beside the
// shortest before.
func BenchmarkHeavy(b *testing.B) {
	for _, r := range []int{256, 1024, 2048} {
		b.Run(fmt.Sprint("fourier_kons/", r), func(b *testing.B) {
			heavy(b, 64, func() model.Learner { return kons.New(waves(8, r/2), kons.Options{Alpha: 1, Low: -8, High: 8}) })
		})
		b.Run(fmt.Sprint("fourier_kons_regret/", r), func(b *testing.B) {
			heavy(b, 64, func() model.Learner {
				return kons.New(waves(8, r/2), kons.Options{Alpha: 1, Low: -8, High: 8, TrackRegret: true})
			})
		})
		b.Run(fmt.Sprint("kons/", r), func(b *testing.B) {
			heavy(b, r, func() model.Learner {
				return kons.NewExact(kons.ExactOptions{
					Options: kons.Options{Alpha: 1, Low: -8, High: 8}, Kernel: gaussian(1), Dimension: 8, Gamma: 1, Capacity: 4 * r,
				})
			})
		})
	}
}

func heavy(b *testing.B, rounds int, learner func() model.Learner) {
	b.Helper()
	samples := modeltest.Samples(1, 8, 2*rounds)
	before, longest := math.Inf(1), math.Inf(1)
	for b.Loop() {
		l, largest := learner(), 0.0
		var o model.Outcome
		for n, s := range samples {
			weight := 1.0
			if n == rounds {
				weight = 5
			}
			from := b.Elapsed()
			if err := l.Observe(&o, s.X, []float64{s.Y}, weight); err != nil {
				b.Fatal(err)
			}
			switch took := (b.Elapsed() - from).Seconds(); {
			case n < rounds && n > rounds*3/4:
				before = min(before, took)
			case n >= rounds:
				largest = max(largest, took)
			}
		}
		longest = min(longest, largest)
	}
	b.ReportMetric(before*1e3, "ms/before")
	b.ReportMetric(longest*1e3, "ms/longest")
	b.ReportMetric(longest/before, "longest/before")
	b.ReportMetric(0, "ns/op") // Of no meaning.
}
