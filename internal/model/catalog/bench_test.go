package catalog_test

import (
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
