package machine_test

import (
	"math/rand/v2"
	"testing"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// BenchmarkApply is an observation of a model that has learned 2,000.
func BenchmarkApply(b *testing.B) {
	frequencies := 64
	for _, s := range []model.Spec{
		{Dimension: 5, LinearAWV: &model.LinearAWV{}},
		{Dimension: 5, FourierAWV: &model.FourierAWV{Frequencies: &frequencies}},
		{Dimension: 5, AdaRaker: &model.AdaRaker{}},
		{Dimension: 5, Auto: &model.Auto{}, Coverage: []float64{0.5, 0.9}},
	} {
		b.Run(s.Name(), func(b *testing.B) {
			s, _, err := catalog.Complete(s)
			if err != nil {
				b.Fatal(err)
			}
			m, err := machine.New(s, catalog.New)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			all := make([]record.Record, 500)
			for n := range all {
				x := make([]float64, 5)
				for i := range x {
					x[i] = rng.NormFloat64()
				}
				all[n].Observations = []record.Observation{{Features: x, Labels: []float64{x[0] + rng.NormFloat64()}, Weight: 1}}
			}
			answers := make([]record.Answer, 1)
			apply := func(n int) {
				if err := m.Apply(&all[n%len(all)], answers, nil); err != nil {
					b.Fatal(err)
				}
			}
			for n := range 2000 {
				apply(n)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				apply(n)
			}
		})
	}
}
