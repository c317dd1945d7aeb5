package catalog_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// measured is a learner of a benchmark and the rounds that it learns first.
type measured struct {
	name   string
	spec   model.Spec
	rounds int
}

// everyLearner is every learner with its defaults, and two large ones.
func everyLearner() []measured {
	return []measured{
		{"auto", model.Spec{Dimension: 4}, 300},
		{"pkawv_taylor", model.Spec{Dimension: 4, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{}}, 300},
		{"pkawv_nystrom", model.Spec{Dimension: 4, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{}}, 1000},
		{"fourier_awv", model.Spec{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{}}, 300},
		{"fourier_awv of five ridges", model.Spec{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{
			Ridges: model.Ridges{Lambdas: []float64{1e-3, 1e-2, 0.1, 1, 10}},
		}}, 300},
		{"semiparametric_awv", model.Spec{Dimension: 4, Scaling: model.Unscaled(), SemiparametricAWV: &model.SemiparametricAWV{}}, 300},
		{"linear_awv", model.Spec{Dimension: 4, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, 300},
		{"kernel_awv", model.Spec{Dimension: 4, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{}}, 1000},
		{"raker", model.Spec{Dimension: 4, Scaling: model.Unscaled(), Raker: &model.Raker{}}, 300},
		{"ada_raker", model.Spec{Dimension: 4, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{}}, 300},
		{"fogd", model.Spec{Dimension: 4, Scaling: model.Unscaled(), FOGD: &model.FOGD{}}, 300},
		{"fourier_kons", model.Spec{Dimension: 4, Scaling: model.Unscaled(), FourierKONS: &model.FourierKONS{}}, 300},
		{"pros_n_kons", model.Spec{Dimension: 4, Scaling: model.Unscaled(), ProsNKONS: &model.ProsNKONS{}}, 1000},
		{"kons", model.Spec{Dimension: 4, Scaling: model.Unscaled(), KONS: &model.KONS{}}, 1000},
		{"linear_awv behind a running scaling", model.Spec{
			Dimension: 4, LinearAWV: &model.LinearAWV{}, Scaling: &model.Scaling{Running: &model.RunningScaling{}},
		}, 300},
		{"warming up", model.Spec{
			Dimension: 4, LinearAWV: &model.LinearAWV{},
			Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 1000}},
		}, 999},
		{"fogd of 2048 frequencies", model.Spec{
			Dimension: 4, Scaling: model.Unscaled(), FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Frequencies: ptr(2048)}},
		}, 2},
		{"pkawv_nystrom of 20000 rounds", model.Spec{
			Dimension: 4, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{History: model.HistoryFull},
		}, 20_000},
	}
}

func (m measured) learn(b *testing.B) model.Learner {
	b.Helper()
	l := must(catalog.New(m.spec))(b)
	var o model.Outcome
	for _, s := range modeltest.Samples(5, m.spec.Dimension, m.rounds) {
		require.NoError(b, l.Observe(&o, s.X, []float64{s.Y}, s.Weight))
	}
	return l
}

// BenchmarkStats is what a scrape asks of a model.
func BenchmarkStats(b *testing.B) {
	for _, m := range everyLearner() {
		b.Run(m.name, func(b *testing.B) {
			l := m.learn(b)
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Stats()
			}
		})
	}
}

// BenchmarkState copies a state into a buffer that has room, and back.
func BenchmarkState(b *testing.B) {
	for _, m := range everyLearner() {
		b.Run(m.name, func(b *testing.B) {
			l := m.learn(b)
			state, err := l.AppendBinary(make([]byte, 0, l.Size()))
			require.NoError(b, err)
			b.Run("append", func(b *testing.B) {
				b.SetBytes(int64(len(state)))
				b.ReportAllocs()
				for b.Loop() {
					if state, err = l.AppendBinary(state[:0]); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("restore", func(b *testing.B) {
				b.SetBytes(int64(len(state)))
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, l.Restore(state))
				}
			})
		})
	}
}

// Stats costs no more than O(r), and does not depend on the history that a
// dictionary keeps. It fails where Stats solves.
func BenchmarkStatsGrowth(b *testing.B) {
	firstOrder := func(r int) model.FirstOrder { return model.FirstOrder{Frequencies: ptr(r / 2)} }
	for name, grown := range map[string]func(r int) measured{
		"pkawv_taylor": func(r int) measured {
			return measured{spec: model.Spec{Dimension: r - 1, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(1)}}}
		},
		"pkawv_nystrom": func(r int) measured {
			var centres [][]float64
			for _, s := range modeltest.Samples(6, 4, r) {
				centres = append(centres, s.X)
			}
			return measured{spec: model.Spec{Dimension: 4, PKAWVNystrom: &model.PKAWVNystrom{Dictionary: centres}}}
		},
		"history of pkawv_nystrom": func(r int) measured {
			return measured{
				spec:   model.Spec{Dimension: 4, PKAWVNystrom: &model.PKAWVNystrom{History: model.HistoryFull, MaxDictionary: ptr(8)}},
				rounds: 16 * r,
			}
		},
		"fourier_awv": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, FourierAWV: &model.FourierAWV{Frequencies: ptr(r / 2)}}}
		},
		"linear_awv": func(r int) measured {
			return measured{spec: model.Spec{Dimension: r - 1, LinearAWV: &model.LinearAWV{}}}
		},
		"kernel_awv": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, KernelAWV: &model.KernelAWV{}}, rounds: r}
		},
		"fourier_kons": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, FourierKONS: &model.FourierKONS{Frequencies: ptr(r / 2)}}}
		},
		"kons": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, KONS: &model.KONS{}}, rounds: r}
		},
		"raker": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, Raker: &model.Raker{FirstOrder: firstOrder(r)}}}
		},
		"ada_raker": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: firstOrder(r)}}}}
		},
		"fogd": func(r int) measured {
			return measured{spec: model.Spec{Dimension: 4, FOGD: &model.FOGD{FirstOrder: firstOrder(r)}}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			const r = 32
			small, large := grown(r), grown(modeltest.Growth*r)
			small.rounds, large.rounds = max(small.rounds, 3), max(large.rounds, 3)
			modeltest.StatsGrowth(b, small.learn(b), large.learn(b))
		})
	}
}

// BenchmarkTogether learns 32 observations together: alone, behind bounds and behind a gate,
// and one by one behind both, in turn. It reports the shortest time of each.
func BenchmarkTogether(b *testing.B) {
	const rows = 32
	lowest := -1e6
	for name, s := range map[string]model.Spec{
		"linear_awv":         {Dimension: 200, LinearAWV: &model.LinearAWV{}},
		"pkawv_taylor":       {Dimension: 4, PKAWVTaylor: &model.PKAWVTaylor{}},
		"fourier_awv":        {Dimension: 4, FourierAWV: &model.FourierAWV{Frequencies: ptr(512)}},
		"semiparametric_awv": {Dimension: 4, SemiparametricAWV: &model.SemiparametricAWV{Frequencies: ptr(512)}},
		"five ridges": {Dimension: 4, FourierAWV: &model.FourierAWV{
			Frequencies: ptr(256), Ridges: model.Ridges{Lambdas: []float64{1e-3, 1e-2, 0.1, 1, 10}},
		}},
	} {
		b.Run(name, func(b *testing.B) {
			bounded, gated, both := s, s, s
			bounded.Label = &model.Label{Min: &lowest}
			gated.LabelGate = model.GateOn
			both.Label, both.LabelGate = bounded.Label, model.GateOn
			ways := []struct {
				name     string
				l        model.Learner
				together bool
				shortest float64
			}{
				{"bare", measured{spec: s, rounds: 300}.learn(b), true, math.Inf(1)},
				{"bounds", measured{spec: bounded, rounds: 300}.learn(b), true, math.Inf(1)},
				{"gate", measured{spec: gated, rounds: 300}.learn(b), true, math.Inf(1)},
				{"both", measured{spec: both, rounds: 300}.learn(b), true, math.Inf(1)},
				{"one-by-one", measured{spec: both, rounds: 300}.learn(b), false, math.Inf(1)},
			}
			all, outcomes := make([]model.Observation, rows), make([]model.Outcome, rows)
			for n, s := range modeltest.Samples(6, s.Dimension, rows) {
				all[n] = model.Observation{X: s.X, Y: []float64{s.Y}, Weight: s.Weight}
			}
			b.ReportAllocs()
			for b.Loop() {
				for k := range ways {
					w := &ways[k]
					from := b.Elapsed()
					for at, step := 0, 1; at < rows; at += step {
						if w.together {
							step = min(model.Together(w.l), rows-at)
						}
						require.NoError(b, model.ObserveAll(w.l, outcomes[at:at+step], all[at:at+step]))
					}
					w.shortest = min(w.shortest, (b.Elapsed() - from).Seconds())
				}
			}
			for _, w := range ways {
				b.ReportMetric(w.shortest/rows*1e9, "ns/row-"+w.name)
			}
			b.ReportMetric(0, "ns/op") // Of no meaning.
		})
	}
}
