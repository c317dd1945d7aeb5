package gate_test

import (
	"math/rand/v2"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

// A gate before auto, and auto alone, at 12 inputs.
func BenchmarkObserve(b *testing.B) {
	o := options(12)
	for name, l := range map[string]model.Learner{"gate": gated(o), "auto": auto.New(level1(o))} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			x, y := make([]float64, 12), make([]float64, 1)
			var out model.Outcome
			observe := func() {
				for j := range x {
					x[j] = rng.Float64()
				}
				y[0] = x[0] + 0.1*rng.Float64()
				if err := l.Observe(&out, x, y, 1); err != nil {
					b.Fatal(err)
				}
			}
			for range 300 {
				observe()
			}
			b.ReportAllocs()
			for b.Loop() {
				observe()
			}
		})
	}
}
