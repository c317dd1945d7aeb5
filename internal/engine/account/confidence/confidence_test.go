package confidence_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/account/confidence"
)

// holds runs paths with a look after every step, as one who stops at the first interval without the truth. It
// returns the share of paths whose intervals all hold the truth.
func holds(paths, steps int, truth float64, step func(rng *rand.Rand) func() (confidence.Interval, bool)) float64 {
	held := 0
	for path := range paths {
		next := step(rand.New(rand.NewPCG(uint64(path), 7)))
		out := false
		for n := 0; n < steps && !out; n++ {
			i, ok := next()
			out = ok && (truth < i.Lower || truth > i.Upper)
		}
		if !out {
			held++
		}
	}
	return float64(held) / float64(paths)
}

// laws are losses and their means.
var laws = map[string]struct {
	mean float64
	draw func(*rand.Rand) float64
	// lacks is what the first looks lack of the coverage.
	lacks float64
}{
	"squares of normal errors": {1, func(rng *rand.Rand) float64 { z := rng.NormFloat64(); return z * z }, 0},
	"exponential":              {1, (*rand.Rand).ExpFloat64, 0},
	"uniform":                  {1, func(rng *rand.Rand) float64 { return 2 * rng.Float64() }, 0},
	"errors, one in five":      {0.2, func(rng *rand.Rand) float64 { return math.Floor(rng.Float64() + 0.2) }, 0},
	"errors, one in thirty":    {1. / 30, func(rng *rand.Rand) float64 { return math.Floor(rng.Float64() + 1./30) }, 0},
	// The fourth moment is infinite.
	"heavy tails": {1, func(rng *rand.Rand) float64 { return 0.75 * math.Pow(1-rng.Float64(), -0.25) }, 0.02},
}

// Who looks after every observation, and stops at the first interval that does not hold the truth, finds one
// in at most one of twenty runs. The allowance is four standard deviations of the simulation.
func TestCoverageUnderOptionalStopping(t *testing.T) {
	const paths, steps = 1000, 2000
	atLeast := confidence.Level - 4*math.Sqrt(0.05*0.95/float64(paths))
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atLeast := atLeast - law.lacks
			if got := holds(paths, steps, 0, func(rng *rand.Rand) func() (confidence.Interval, bool) {
				var d confidence.Moments
				return func() (confidence.Interval, bool) {
					d.Add(law.draw(rng) - law.draw(rng))
					return confidence.Paired(d)
				}
			}); got < atLeast {
				t.Errorf("paired: %.3f of the runs hold the truth throughout, want %.3f", got, atLeast)
			}
		})
	}
}

// The intervals are those of the formula, and none is given of too few or equal values.
func TestInterval(t *testing.T) {
	values := func(n int, f func(n int) float64) (m confidence.Moments) {
		for k := range n {
			m.Add(f(k))
		}
		return m
	}
	turns := func(k int) float64 { return float64(k%2) + 1 } // The variance is 1/4.
	a := values(1000, turns)
	// n rho^2 = 1 x (-2 log 0.05 + log(1 - 2 log 0.05)).
	t1 := -2*math.Log(0.05) + math.Log(1-2*math.Log(0.05))
	radius := func(variance, n float64) float64 {
		t := t1 * n / 1000
		return math.Sqrt(variance * 2 * (t + 1) / (n * t) * math.Log(math.Sqrt(t+1)/0.05))
	}
	near := func(name string, got confidence.Interval, ok bool, mean, radius float64) {
		if !ok || math.Abs(got.Mean-mean) > 1e-9 || math.Abs(got.Upper-mean-radius) > 1e-9 || math.Abs(mean-got.Lower-radius) > 1e-9 {
			t.Errorf("%s: %v, %v, want %g +- %g", name, got, ok, mean, radius)
		}
	}
	got, ok := confidence.Paired(a)
	near("paired", got, ok, 1.5, radius(0.25, 1000))
	for name, few := range map[string]confidence.Moments{
		"nothing": {}, "99 values": values(99, turns),
		"19 errors": values(10_000, func(k int) float64 { return float64(max(0, 19-k) / max(1, 19-k)) }),
	} {
		i, ok := confidence.Paired(few)
		assert.False(t, ok, "%s: %v", name, i)
	}
	i, ok := confidence.Paired(values(1000, func(int) float64 { return 1 }))
	assert.False(t, ok, "equal values: %v", i)
}
