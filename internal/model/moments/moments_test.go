package moments_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/moments"
)

// exact are the mean and Σω(x − mean)² in 300 bits.
func exact(numbers, weights []float64) (mean, squares float64) {
	value := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	total, sum, spread := value(0), value(0), value(0)
	for i, x := range numbers {
		total.Add(total, value(weights[i]))
		sum.Add(sum, new(big.Float).Mul(value(weights[i]), value(x)))
	}
	sum.Quo(sum, total)
	for i, x := range numbers {
		off := new(big.Float).Sub(value(x), sum)
		off.Mul(off, new(big.Float).Mul(off, value(weights[i])))
		spread.Add(spread, off)
	}
	mean, _ = sum.Float64()
	squares, _ = spread.Float64()
	return mean, squares
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	assert.True(t, math.Abs(got-want) <= tolerance*math.Abs(want), "%s is %.17g, want %.17g", what, got, want)
}

func TestMoments(t *testing.T) {
	const seed, count = 1, 20_000
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, offset := range []float64{0, 1, 1e9} {
		var e moments.Exact
		var plain, weighted moments.Running
		numbers, ones, weights, total := make([]float64, count), make([]float64, count), make([]float64, count), 0.0
		for i := range numbers {
			numbers[i], ones[i], weights[i] = offset+rng.NormFloat64(), 1, math.Exp(3*rng.NormFloat64())
			e.Add(numbers[i], 1, float64(i+1))
			plain.Add(numbers[i], 1, float64(i+1))
			weighted.AddWeighted(numbers[i], weights[i], total)
			total += weights[i]
		}
		t.Logf("seed %d, offset %g", seed, offset)
		mean, squares := exact(numbers, ones)
		near(t, "the exact mean", e.Mean.Value(), mean, 1e-15+1e-15/math.Max(math.Abs(mean), 1e-3))
		near(t, "the exact deviation", e.Deviation(count), math.Sqrt(squares/count), 1e-12)
		rounding := 1e-9 * (1 + offset/100)
		near(t, "the mean", plain.Mean, mean, 1e-12+1e-12/math.Max(math.Abs(mean), 1e-3))
		near(t, "the sum of squares", plain.Squares, squares, rounding)
		mean, squares = exact(numbers, weights)
		near(t, "the weighted mean", weighted.Mean, mean, 1e-11+1e-11/math.Max(math.Abs(mean), 1e-3))
		near(t, "the weighted sum of squares", weighted.Squares, squares, rounding)
	}
}

func TestMomentsOfNothingAndOfOne(t *testing.T) {
	var e moments.Exact
	var r, w moments.Running
	if e.Deviation(0) != 0 {
		t.Errorf("no numbers have a deviation of %g", e.Deviation(0))
	}
	e.Add(1e100, 1, 1)
	r.Add(1e100, 1, 1)
	w.AddWeighted(1e100, 1e-9, 0)
	assert.True(t, e.Mean.Value() == 1e100 && e.Deviation(1) == 0 && r == (moments.Running{Mean: 1e100}) && w == r, "%+v, %+v, %+v", e, r, w)
}
