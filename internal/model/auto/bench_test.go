package auto_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/qr"
)

func warm(b *testing.B, o auto.Options) (*auto.Learner, []modeltest.Sample) {
	b.Helper()
	l, samples := auto.NewLevel1(o), modeltest.Samples(1, o.Dimension, 300)
	var out model.Outcome
	for _, s := range samples {
		require.NoError(b, l.Observe(&out, s.X, []float64{s.Y}, 1))
	}
	return l, samples
}

func BenchmarkObserve(b *testing.B) {
	for _, d := range []int{4, 12, 27, 100} {
		b.Run(fmt.Sprint("d=", d), func(b *testing.B) {
			l, samples := warm(b, defaults(d))
			var o model.Outcome
			y := []float64{0}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s := samples[n%len(samples)]
				y[0] = s.Y
				_ = l.Observe(&o, s.X, y, 1)
			}
		})
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, d := range []int{4, 12, 27, 100} {
		b.Run(fmt.Sprint("d=", d), func(b *testing.B) {
			l, samples := warm(b, defaults(d))
			var p model.Prediction
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				_ = l.Predict(&p, samples[n%len(samples)].X)
			}
		})
	}
}

// parts are what an Observe of the defaults is made of, apart from the rest:
// the rotations of its factors, map by map, and its Fourier maps.
func parts(d int) func() {
	const outputs, lags, frequencies = 1, 2, 50
	roots := []float64{1, math.Sqrt(0.999), math.Sqrt(0.99)}
	rng := rand.New(rand.NewPCG(1, 1))
	turns := func(r, columns int) []qr.Turn {
		var turns []qr.Turn
		for _, root := range roots {
			turns = append(turns, qr.Turn{
				Factor: qr.New(r, columns, 0.01), Row: make([]float64, r+columns), Priors: make([]float64, columns), Root: root,
			})
		}
		return turns
	}
	groups := [][]qr.Turn{turns(d+lags+1, 2*outputs), turns(43, 1)}
	for range 4 {
		groups = append(groups, turns(2*frequencies+d+lags+1, 2*outputs))
	}
	source := make([]float64, 400)
	for i := range source {
		source[i] = 0.1 * rng.NormFloat64()
	}
	fourier := feature.NewFourier(kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}, d+lags, frequencies, true, rng)
	z, n := make([]float64, 2*frequencies), 0
	return func() {
		n++
		for range 4 {
			fourier.Map(z, source[n%100:][:d+lags])
		}
		for _, group := range groups {
			for i := range group {
				copy(group[i].Row, source[n%50:])
			}
			qr.RotateTogether(group)
		}
	}
}

// BenchmarkOverhead measures an Observe and its parts in turn, and fails if an
// Observe costs more than 1.3 times as much. It compares the shortest of many
// measurements, so that other work on the machine does not make it fail.
func BenchmarkOverhead(b *testing.B) {
	const d = 12
	l, samples := warm(b, defaults(d))
	apart, n := parts(d), 0
	var o model.Outcome
	y := []float64{0}
	whole := func() {
		n++
		s := samples[n%len(samples)]
		y[0] = s.Y
		_ = l.Observe(&o, s.X, y, 1)
	}
	shortest := func(call func(), least float64) float64 {
		before := b.Elapsed()
		for range 8 {
			call()
		}
		return min(least, (b.Elapsed()-before).Seconds()/8)
	}
	first, second := math.Inf(1), math.Inf(1)
	for b.Loop() {
		for range 200 {
			first, second = shortest(whole, first), shortest(apart, second)
		}
	}
	require.False(b, first > 1.3*second, "an Observe takes %.3g µs, its parts %.3g µs", first*1e6, second*1e6)
	b.ReportMetric(first*1e6, "µs/observe")
	b.ReportMetric(first/second, "overhead")
	b.ReportMetric(0, "ns/op") // Of no meaning.
}

// BenchmarkKeys measures a full window without keys and with three, of 1,000 values each.
func BenchmarkKeys(b *testing.B) {
	const d, rows = 12, 9000
	keyed := defaults(d + 3)
	for k := range 3 {
		keyed.Keys = append(keyed.Keys, auto.Key{Feature: d + k})
	}
	for name, l := range map[string]model.Learner{"none": auto.New(defaults(d)), "three": auto.New(keyed)} {
		samples, y := modeltest.Samples(1, d, rows), []float64{0}
		rng := rand.New(rand.NewPCG(1, 1))
		inputs := make([][]float64, rows)
		for n, s := range samples {
			inputs[n] = s.X
			if name == "three" {
				inputs[n] = slices.Concat(s.X, []float64{float64(1 + rng.IntN(1000)), float64(1 + rng.IntN(1000)), float64(1 + rng.IntN(1000))})
			}
		}
		var o model.Outcome
		observe := func(n int) {
			y[0] = samples[n%rows].Y
			_ = l.Observe(&o, inputs[n%rows], y, 1)
		}
		for n := range rows {
			observe(n)
		}
		b.Run("Observe/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				observe(n)
			}
		})
		var p model.Prediction
		b.Run("Predict/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				_ = l.Predict(&p, inputs[n%rows])
			}
		})
		b.Run("Predict and Observe/"+name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				y[0] = samples[n%rows].Y
				_ = l.Predict(&p, inputs[n%rows])
				_ = model.ObserveAdvised(l, &o, inputs[n%rows], y, 1, p.Advice)
			}
		})
	}
}
