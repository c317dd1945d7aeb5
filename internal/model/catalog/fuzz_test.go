package catalog_test

import (
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// FuzzRestore: whatever bytes are given for the state of a learner, it is
// restored and works, or refuses them; nothing panics, and a refusal leaves the
// learner as it was. An import may bring any bytes.
func FuzzRestore(f *testing.F) {
	specs := []model.Spec{
		{Dimension: 2, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}},
		{Dimension: 2, Outputs: 2, LinearAWV: &model.LinearAWV{Forgetting: ptr(0.9)}},
		{Dimension: 2, Seed: 3, PKAWVNystrom: &model.PKAWVNystrom{History: model.HistoryWindow, HistoryWindow: ptr(5)}},
		{Dimension: 2, KernelAWV: &model.KernelAWV{MaxObservations: ptr(40)}},
		{Dimension: 2, Seed: 5, Raker: &model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(2)}}},
		{Dimension: 2, Seed: 6, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(2)}}}},
		{Dimension: 2, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 8}}, LinearAWV: &model.LinearAWV{}},
	}
	samples := modeltest.Samples(5, 2, 20)
	observe := func(l model.Learner, s modeltest.Sample) error {
		y := []float64{s.Y, -s.Y}
		if l.Check(s.X, y, s.Weight) != nil {
			y = y[:1]
		}
		return l.Observe(&model.Outcome{}, s.X, y, s.Weight)
	}
	for kind, spec := range specs {
		l, err := catalog.New(spec)
		if err != nil {
			f.Fatal(err)
		}
		for n, s := range samples {
			if n%7 == 3 {
				state, err := l.AppendBinary(nil)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(uint8(kind), state)
			}
			if err := observe(l, s); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, state []byte) {
		l, err := catalog.New(specs[int(kind)%len(specs)])
		if err != nil {
			t.Fatal(err)
		}
		before := l.Stats().Observations
		if err := l.Restore(state); err != nil {
			if got := l.Stats().Observations; got != before {
				t.Fatalf("%d observations after a refusal", got)
			}
			return
		}
		_ = l.Stats()
		_ = l.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension
		_ = l.Report(model.ReportOptions{}).RegretUnpenalized
		for _, s := range samples {
			var p model.Prediction
			_ = l.Predict(&p, s.X)
			_ = observe(l, s)
		}
	})
}
