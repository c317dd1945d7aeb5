package auto_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

// naiveUpper is level 2 as docs/theory.md tells it, given what its experts say: ML-Poly of
// plain sums, and stacks of dense matrices that are solved anew for every prediction.
type naiveUpper struct {
	base, final *naivePoly
	stacks      []*dense
	residual    float64
}

func newNaiveUpper(experts int) *naiveUpper {
	u := &naiveUpper{
		base:  &naivePoly{regrets: make([]float64, experts), squares: make([]float64, experts)},
		final: &naivePoly{regrets: make([]float64, 5), squares: make([]float64, 5)},
	}
	for _, f := range []float64{1, 0.999, 0.99} {
		u.stacks = append(u.stacks, newDense(-1, experts+2, 1, 3, f))
	}
	return u
}

// predict is v, b and the stacks, their mixture, and the features of the stacks.
func (u *naiveUpper) predict(experts []float64, scale float64, cut func(float64) float64) (final []float64, value float64, z []float64) {
	b := u.base.mix(experts, len(experts))
	for _, f := range experts {
		z = append(z, (f-b)/scale)
	}
	z = append(z, u.residual/scale, 1)
	final = []float64{experts[0], b}
	for _, s := range u.stacks {
		final = append(final, cut(b+scale*s.predict(z)[0]))
	}
	return final, u.final.mix(final, len(final)), z
}

func (u *naiveUpper) learn(experts, final, z []float64, value, scale, y, weight float64) {
	b := final[1]
	u.base.learn(2*weight*(b-y), b, experts, len(experts))
	u.final.learn(2*weight*(value-y), value, final, len(final))
	for _, s := range u.stacks {
		s.learn(z, []float64{(y - b) / scale}, weight)
	}
	u.residual = y - b
}

// Level 2 mixes as the naive level 2 mixes, and its regret is that of plain sums.
func TestNaiveUpper(t *testing.T) {
	o := auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 5, Microseconds: 500}
	l, rng := auto.NewLevels(o), rand.New(rand.NewPCG(1, 5))
	var upper *naiveUpper
	var p model.Prediction
	var out model.Outcome
	low, high := math.Inf(1), math.Inf(-1)
	var regrets []float64
	for row := range 900 {
		x := []float64{rng.Float64(), rng.NormFloat64()}
		y := math.Floor(4*x[0]) + math.Sin(2*x[1]) + 0.1*rng.NormFloat64()
		weight := 0.5 + rng.Float64()
		require.NoError(t, l.Predict(&p, x))
		experts, final, value, awake := l.Said(p.Advice)
		if awake {
			if upper == nil {
				upper = newNaiveUpper(len(experts))
				regrets = append(regrets, make([]float64, len(experts)-len(regrets))...)
			}
			scale := l.LabelScale(0)
			want, mixed, z := upper.predict(experts, scale, func(v float64) float64 { return math.Max(low, math.Min(high, v)) })
			for i, f := range append(slices.Clone(final), value) {
				require.InDelta(t, append(slices.Clone(want), mixed)[i], f, 1e-7*(high-low), "%v %v", row, i)
			}
			upper.learn(experts, final, z, value, scale, y, weight)
		} else {
			regrets = append(regrets, make([]float64, len(experts)-len(regrets))...)
		}
		low, high = math.Min(low, y), math.Max(high, y)
		for e, f := range experts {
			if e >= 1 && e <= 3 && row == 0 || e > 3 && row < 8 {
				continue // Asleep.
			}
			regrets[e] += weight * ((value-y)*(value-y) - (f-y)*(f-y))
		}
		require.NoError(t, l.Observe(&out, x, []float64{y}, weight))
		compared := regrets
		if row < 128 { // v is what level 1 says.
			compared = regrets[1:]
		}
		require.InDelta(t, slices.Max(compared), out.Regret, 1e-9*(1+l.Stats().Loss), row)
	}
	require.NotNil(t, upper, "level 2 slept")
}

// TestStackGain: what the stack gains by experts is what it explains more than a stack without them, also
// where two of them say the same.
func TestStackGain(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, same := range []bool{false, true} {
		var rows [][]float64
		var labels []float64
		for range 400 {
			z := make([]float64, 9)
			for i := range z {
				z[i] = rng.NormFloat64()
			}
			z[1] += z[4]
			if same {
				z[5] = z[4] + 1e-3*rng.NormFloat64()
			}
			rows, labels = append(rows, z), append(labels, z[0]+z[3]-2*z[5]+rng.NormFloat64())
		}
		gain, all, without := auto.StackGain(rows, labels, 3, 3)
		want := all - without
		assert.False(t, math.Abs(gain-want) > 1e-7*want, "a gain of %g, want %g", gain, want)
	}
}
