package auto_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

// After each row of a stream come light rows with labels that say nothing. Both levels predict the stream nearly as
// well as without them: means, ranges, scales, trees, neighbors and crosses count a row by its weight.
func TestLightRowsCountNextToNothing(t *testing.T) {
	o := auto.Options{
		// Two numbers, two flags and a category of three.
		Dimension: 7, Outputs: 1, Joint: []auto.Span{{From: 4, To: 7}}, Flags: []int{2, 3}, Frequencies: 8, Microseconds: 500,
	}
	rng := rand.New(rand.NewPCG(4, 1))
	row := func() []float64 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), float64(rng.IntN(2)), float64(rng.IntN(2)), 0, 0, 0}
		x[4+rng.IntN(3)] = 1
		return x
	}
	type learner interface {
		Predict(p *model.Prediction, x []float64) error
		Observe(o *model.Outcome, x, y []float64, weight float64) error
	}
	for name, fresh := range map[string]func() learner{
		"level 1": func() learner { return auto.NewLevel1(o) },
		"level 2": func() learner { return auto.New(o) },
	} {
		t.Run(name, func(t *testing.T) {
			alone, beside := fresh(), fresh()
			var loss, lossBeside float64
			var out model.Outcome
			for n := range 1500 {
				x := row()
				y := 3*x[0] + 2*x[2] - 4*x[2]*x[3] + 2*x[5] + rng.NormFloat64()/2
				if x[1] > 0.3 {
					y += 5
				}
				for l, sum := range map[learner]*float64{alone: &loss, beside: &lossBeside} {
					require.NoError(t, l.Observe(&out, x, []float64{y}, 1))
					if n >= 500 {
						*sum += out.Loss
					}
				}
				for range 2 {
					require.NoError(t, beside.Observe(&out, row(), []float64{1e4 * rng.NormFloat64()}, model.MinWeight))
				}
			}
			t.Logf("loss beside light rows over the loss without: %.3f", lossBeside/loss)
			assert.LessOrEqual(t, lossBeside, 1.25*loss, "loss %g beside light rows, %g without", lossBeside, loss)
		})
	}
}

// A column that differs from a constant by rounding alone is no input: both levels lose what they lose with the constant.
func TestRoundingIsNoInput(t *testing.T) {
	o := auto.Options{Dimension: 3, Outputs: 1, Frequencies: 8, Microseconds: 500}
	rng := rand.New(rand.NewPCG(5, 1))
	for name, pair := range map[string][2]model.Learner{
		"level 1": {auto.NewLevel1(o), auto.NewLevel1(o)},
		"level 2": {auto.New(o), auto.New(o)},
	} {
		t.Run(name, func(t *testing.T) {
			var sums [2]float64
			var out model.Outcome
			for range 600 {
				a, b := rng.NormFloat64(), 1e6
				y := []float64{2*a + rng.NormFloat64()/4}
				for k, l := range pair {
					if k == 1 && rng.IntN(2) == 0 {
						b = math.Nextafter(b, 2*b)
					}
					require.NoError(t, l.Observe(&out, []float64{a, b, -b / 3}, y, 1))
					sums[k] += out.Loss
				}
			}
			t.Logf("loss beside rounding over the loss beside constants: %.4f", sums[1]/sums[0])
			assert.LessOrEqual(t, sums[1], 1.01*sums[0], "loss %g beside rounding, %g beside constants", sums[1], sums[0])
		})
	}
}

// The unit of the stacks stays within a factor of 32 of the deviation, changes by powers of two,
// and no more than it must.
func TestStacksFollowTheUnitOfLabels(t *testing.T) {
	for _, c := range [][3]float64{
		{1, 1, 1}, {1, 32, 1}, {1, 33, 2}, {1, 1e6, 32768}, {3, 1.0 / 32, 0.75}, {3, 3.0 / 32, 3}, {1, 1e-6, 1.0 / 32768},
	} {
		assert.Equal(t, c[2], auto.FollowedUnit(c[0], c[1]), "unit %g, deviation %g", c[0], c[1])
	}
}
