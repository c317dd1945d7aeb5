package gate_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/gate"
)

// counting counts the rows that a learner learns together.
type counting struct {
	model.Learner
	together *int
}

func (c counting) Together() int { return model.Together(c.Learner) }

func (c counting) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	*c.together += len(all)
	return model.ObserveAll(c.Learner, outcomes, all)
}

// counted is a gate before a counted learner of a spec.
func counted(t *testing.T, s model.Spec, together *int) *gate.Learner {
	t.Helper()
	return gate.New(gate.Options{Dimension: s.Dimension, Outputs: max(s.Outputs, 1), New: func() model.Learner {
		l, err := catalog.New(s)
		require.NoError(t, err)
		return counting{l, together}
	}})
}

// Rows behind a gate that come together leave the bits of as many single rows, through every
// row that is set aside, every event and every new start. The learner learns the rows between
// these together.
func TestTogetherAmongDirt(t *testing.T) {
	specs := map[string]model.Spec{
		"linear":      {Dimension: 1, LinearAWV: &model.LinearAWV{}},
		"two outputs": {Dimension: 1, Outputs: 2, LinearAWV: &model.LinearAWV{}},
	}
	streams := append(mixtures(), mixture{"a smaller unit", 3000, func(rng *rand.Rand) func(int) (float64, float64) {
		return func(row int) (float64, float64) {
			unit := 1.0
			if row >= 1700 {
				unit = 1e-4
			}
			return rng.NormFloat64(), unit * rng.NormFloat64()
		}
	}}, mixture{"rare amounts", 3000, func(rng *rand.Rand) func(int) (float64, float64) {
		return func(int) (float64, float64) {
			x, y := rng.NormFloat64(), 0.01*rng.NormFloat64()
			if rng.IntN(40) == 0 {
				y = 100 * rng.ExpFloat64()
			}
			return x, y
		}
	}})
	for name, s := range specs {
		for _, d := range streams {
			var total model.Gate
			t.Run(fmt.Sprint(name, ", ", d.name), func(t *testing.T) {
				for seed := range uint64(8) {
					g := observesTogether(t, s, d, seed)
					total.SetAside += g.SetAside
					total.Starts += g.Starts
				}
				assert.True(t, total.SetAside != 0 || total.Starts != 0, "the gate let every row in: the test tests nothing")
			})
		}
	}
}

func observesTogether(t *testing.T, s model.Spec, d mixture, seed uint64) model.Gate {
	t.Helper()
	var alone, together int
	one, many := counted(t, s, &alone), counted(t, s, &together)
	draw, sizes := d.draw(rand.New(rand.NewPCG(seed, 34))), rand.New(rand.NewPCG(seed, 35))
	batched := 0
	for row := 0; row < d.rows; {
		count := min(1+sizes.IntN(many.Together()), d.rows-row)
		all := make([]model.Observation, count)
		got, want := make([]model.Outcome, count), make([]model.Outcome, count)
		for n := range all {
			x, label := draw(row + n)
			y := make([]float64, max(s.Outputs, 1))
			for j := range y {
				y[j] = label
			}
			all[n] = model.Observation{X: []float64{x}, Y: y, Weight: 0.5 + sizes.Float64()}
			require.NoError(t, one.Observe(&want[n], all[n].X, all[n].Y, all[n].Weight))
		}
		require.NoError(t, many.ObserveAll(got, all))
		for n := range want {
			require.Equal(t, fmt.Sprint(want[n]), fmt.Sprint(got[n]), "seed %d, row %d, %d of %d: %+v, alone %+v", seed, row, n, count, got[n], want[n])
		}
		require.Equal(t, stateOf(t, many), stateOf(t, one), "%v %v %v", seed, count, row)
		if row += count; count > 1 {
			batched += count
		}
	}
	g := one.Stats().Gate
	assert.True(t, alone == 0 && together >= batched/2 && batched >= d.rows/3, "seed %d: %d of %d rows reached the learner together, %d alone; %+v", seed, together, batched, alone, g)
	return g
}

// A rejected row in the middle leaves the gate as it was.
func TestRejectedTogether(t *testing.T) {
	var together int
	l, rng := counted(t, model.Spec{Dimension: 1, LinearAWV: &model.LinearAWV{}}, &together), rand.New(rand.NewPCG(1, 2))
	var o model.Outcome
	for range 200 {
		require.NoError(t, l.Observe(&o, []float64{rng.NormFloat64()}, []float64{rng.NormFloat64()}, 1))
	}
	before := stateOf(t, l)
	for bad := range 4 {
		all := make([]model.Observation, 4)
		for n := range all {
			all[n] = model.Observation{X: []float64{0}, Y: []float64{1e6 * float64(n%2)}, Weight: 1}
		}
		all[bad].Y[0] = math.NaN()
		err := l.ObserveAll(make([]model.Outcome, 4), all)
		require.True(t, err != nil && bytes.Equal(stateOf(t, l), before), "row %d is no number: %v, or another state", bad, err)
	}
}
