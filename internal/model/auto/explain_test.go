package auto_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

// explained is a learner that explains itself.
type explained interface {
	model.Learner
	model.Explaining
}

func explainers(o auto.Options) map[string]explained {
	keyed := o
	keyed.Keys = []auto.Key{{Feature: 1}, {Feature: 2}}
	return map[string]explained{
		"first": auto.NewLevel1(o), "second": auto.New(o), "first with keys": auto.NewLevel1(keyed), "second with keys": auto.New(keyed),
	}
}

// The contributions of all families are the prediction, their weights 1, at every stage. What
// is neither an expert's nor a cut is small once stacks have learned.
func TestExplanationsAddUp(t *testing.T) {
	o := auto.Options{Dimension: 3, Outputs: 2, Lags: 1, Frequencies: 8, Microseconds: 500}
	for name, l := range explainers(o) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			var p model.Prediction
			var out model.Outcome
			rest, size := 0.0, 0.0
			for row := range 1200 {
				x := []float64{rng.Float64(), rng.Float64(), rng.NormFloat64()}
				y := []float64{math.Sin(6*x[0]) + x[2], math.Floor(3 * x[1])}
				require.NoError(t, l.Predict(&p, x))
				sums, total := make([]float64, 2), make([]float64, 2)
				for _, part := range l.Explain(&p) {
					for j := range 2 {
						sums[j] += part.Weights[j]
						total[j] += part.Contributions[j]
					}
					if part.Family == "rest" && row >= 600 {
						rest, size = rest+math.Abs(part.Contributions[0]), size+math.Abs(p.Values[0])
					}
				}
				for j := range 2 {
					require.False(t, math.Abs(total[j]-p.Values[j]) > 1e-9 || (row > 0 && math.Abs(sums[j]-1) > 1e-9), "row %d: contributions of %g in %g, weights of %g", row, total[j], p.Values[j], sums[j])
				}
				require.NoError(t, l.Observe(&out, x, y, 1))
			}
			assert.True(t, rest < 0.1*size, "the rest is %g of %g", rest, size)
			for _, family := range l.Report(model.ReportOptions{}).Families {
				t.Logf("%s %.3f", family.Family, family.Weights)
			}
		})
	}
}

// Trees learn steps that nothing else learns, and what the label depends on matters.
func TestWhatMatters(t *testing.T) {
	o := auto.Options{
		Dimension: 7, Outputs: 1, Lags: 1, Frequencies: 8, Microseconds: 500,
		Joint: []auto.Span{{From: 2, To: 5}}, Cycles: []int{5},
	}
	l := auto.New(o)
	rng := rand.New(rand.NewPCG(1, 3))
	var out model.Outcome
	for range 3000 {
		category, angle := rng.IntN(3), 2*math.Pi*rng.Float64()
		x := []float64{rng.Float64(), rng.Float64(), 0, 0, 0, math.Sin(angle), math.Cos(angle)}
		x[2+category] = 1
		y := 3*math.Floor(4*x[0]) + float64(category*category)
		require.NoError(t, l.Observe(&out, x, []float64{y}, 1))
	}
	r := l.Report(model.ReportOptions{Importances: true})
	weights := map[string]float64{}
	for _, f := range r.Families {
		weights[f.Family] = f.Weights[0]
	}
	assert.GreaterOrEqual(t, weights["trees"], 0.5, "trees have the weight %g of %v", weights["trees"], weights)
	gains, gain := map[string]model.Importance{}, 0.0
	for _, i := range r.Importances {
		gains[fmt.Sprintf("%d-%d%s", i.From, i.To, i.Name)] = i
		gain += i.Gain
	}
	t.Log(r.Importances)
	assert.True(t, math.Abs(gain-1) <= 1e-9 && len(r.Importances) == 6, "gains of %g, %v", gain, r.Importances)
	inputs := []string{"0-1", "1-2", "2-5", "5-7"}
	for _, what := range inputs {
		i, matters := gains[what], what == inputs[0] || what == inputs[2]
		assert.True(t, matters == (i.Permutation > 0.05) && matters == (i.Gain > 0.05), "%s: %+v", what, i)
	}
	assert.Nil(t, l.Report(model.ReportOptions{}).Importances)
	assert.True(t, slices.ContainsFunc(r.Importances, func(i model.Importance) bool { return i.Name == model.PastLabels }), "no past labels among %v", r.Importances)
}
