package bootstrap_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/client/internal/bootstrap"
)

// autocorrelated draws x[t] = phi x[t-1] + noise around a mean, in its long run.
func autocorrelated(rng *rand.Rand, n int, phi, mean float64) []float64 {
	x := make([]float64, n)
	before := rng.NormFloat64() / math.Sqrt(1-phi*phi)
	for i := range x {
		before = phi*before + rng.NormFloat64()
		x[i] = mean + before
	}
	return x
}

// The interval contains the mean of autocorrelated series nearly as often as it says. An interval
// that took the values for independent would contain it far less often.
func TestCoverage(t *testing.T) {
	const trials, mean = 200, 0.7
	for _, c := range []struct {
		n          int
		phi, least float64
	}{{200, 0, 0.91}, {300, -0.4, 0.91}, {500, 0.5, 0.88}, {2000, 0.8, 0.88}} {
		rng := rand.New(rand.NewPCG(1, 2))
		inside, naive := 0, 0
		for trial := range trials {
			series := autocorrelated(rng, c.n, c.phi, mean)
			i := bootstrap.Mean(series, uint64(trial))
			if i.Low <= mean && mean <= i.High {
				inside++
			}
			var squares float64
			for _, v := range series {
				squares += (v - i.Mean) * (v - i.Mean)
			}
			if math.Abs(i.Mean-mean) <= 1.96*math.Sqrt(squares)/float64(c.n) {
				naive++
			}
		}
		share, independent := float64(inside)/trials, float64(naive)/trials
		t.Logf("n %d, phi %g: %g of intervals contain the mean, %g if values were independent", c.n, c.phi, share, independent)
		if share < c.least || share > 0.99 {
			t.Errorf("n %d, phi %g: %g of intervals contain the mean, want %g to 0.99", c.n, c.phi, share, c.least)
		}
		if c.phi >= 0.5 && independent > 0.85 {
			t.Errorf("phi %g: the series is too easy: %g without blocks", c.phi, independent)
		}
	}
}

// A seed gives the same interval again. Blocks grow with the dependence. A constant has no width.
func TestIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	weak, strong := autocorrelated(rng, 1000, 0, 0), autocorrelated(rng, 1000, 0.9, 0)
	a, b := bootstrap.Mean(strong, 7), bootstrap.Mean(strong, 7)
	if a != b {
		t.Errorf("%v, and with the same seed %v", a, b)
	}
	if w := bootstrap.Mean(weak, 7).Block; w > 5 || a.Block < 10 {
		t.Errorf("blocks of %g without dependence, of %g with", w, a.Block)
	}
	constant := make([]float64, 100)
	for i := range constant {
		constant[i] = 2
	}
	if i := bootstrap.Mean(constant, 7); i != (bootstrap.Interval{Mean: 2, Low: 2, High: 2, Block: 1}) {
		t.Errorf("constant: %v", i)
	}
}
