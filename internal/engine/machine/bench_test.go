package machine_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// BenchmarkApplyTogether is an observation of a record of 64 and of a record of one, in turns.
func BenchmarkApplyTogether(b *testing.B) {
	const batch, learned = 64, 10_000
	degree, frequencies := 2, 1024
	for name, s := range map[string]model.Spec{
		"r=190":  {Dimension: 18, PKAWVTaylor: &model.PKAWVTaylor{Degree: &degree}},
		"r=2048": {Dimension: 5, FourierAWV: &model.FourierAWV{Frequencies: &frequencies}},
	} {
		b.Run(name, func(b *testing.B) {
			s, _, err := catalog.Complete(s)
			if err != nil {
				b.Fatal(err)
			}
			m, err := machine.New(s, catalog.New)
			if err != nil {
				b.Fatal(err)
			}
			rng, answers := rand.New(rand.NewPCG(1, 2)), make([]record.Answer, batch)
			together, alone := record.Record{}, make([]record.Record, batch)
			for n := range alone {
				o := observationOf(rng, s)
				o.Weight, together.Observations = 1, append(together.Observations, o)
				alone[n].Observations = together.Observations[n : n+1]
			}
			apply := func(r *record.Record) {
				if err := m.Apply(r, answers, nil); err != nil {
					b.Fatal(err)
				}
			}
			for m.Sequence() < learned {
				apply(&together)
			}
			var times [2][]float64
			for b.Loop() {
				start := time.Now()
				apply(&together)
				times[0] = append(times[0], float64(time.Since(start).Nanoseconds())/batch)
				start = time.Now()
				for n := range alone {
					apply(&alone[n])
				}
				times[1] = append(times[1], float64(time.Since(start).Nanoseconds())/batch)
			}
			for i, name := range []string{"together-ns", "alone-ns"} {
				slices.Sort(times[i])
				b.ReportMetric(times[i][len(times[i])/4], name)
			}
		})
	}
}
