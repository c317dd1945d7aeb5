package auto_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
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

func BenchmarkLevel1(b *testing.B) {
	for _, d := range []int{4, 12, 27, 100} {
		l, samples := warm(b, defaults(d))
		var o model.Outcome
		var p model.Prediction
		y := []float64{0}
		for name, call := range map[string]func(s modeltest.Sample){
			"Observe": func(s modeltest.Sample) { y[0] = s.Y; _ = l.Observe(&o, s.X, y, 1) },
			"Predict": func(s modeltest.Sample) { _ = l.Predict(&p, s.X) },
		} {
			b.Run(fmt.Sprint(name, "/d=", d), func(b *testing.B) {
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					call(samples[n%len(samples)])
				}
			})
		}
	}
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
	}
}
