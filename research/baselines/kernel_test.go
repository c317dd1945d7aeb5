package baselines_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/research/baselines"
)

// inputs draws n inputs of dimension d from [-1, 1]^d. Every fifth one is that of
// five before, so that squared distances are 0 too.
func inputs(random *rand.Rand, n, d int) [][]float64 {
	x := make([][]float64, n)
	for i := range x {
		x[i] = make([]float64, d)
		for j := range x[i] {
			x[i][j] = 2*random.Float64() - 1
		}
		if i >= 5 && i%5 == 0 {
			copy(x[i], x[i-5])
		}
	}
	return x
}

// near fails if two numbers differ by more than a share of their magnitude, or of 1.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) && math.IsNaN(want) {
		return
	}
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Fatalf("%s: %v, not %v", what, got, want)
	}
}

// The values of AdaRaker, section 5: σ² is the variance of the Gaussian kernel.
func TestKernels(t *testing.T) {
	x, z := []float64{1, 2}, []float64{3, -1}
	want := []float64{math.Exp(-13 / 0.2), math.Exp(-6.5), math.Exp(-0.65), 4, 1, 8}
	names := []string{"RBF, σ² = 0.1", "RBF, σ² = 1", "RBF, σ² = 10", "POLY2", "LINEAR", "POLY3"}
	for i, k := range baselines.Kernels() {
		near(t, k.Name, k.Value(x, z), want[i], 1e-15)
		near(t, k.Name, k.Value(z, x), want[i], 1e-15)
		if k.Name != names[i] {
			t.Errorf("kernel %d is %q, not %q", i, k.Name, names[i])
		}
	}
}

// The rows of Past are the values of the kernels, which a naive loop computes.
func TestPast(t *testing.T) {
	for _, d := range []int{1, 3, 4, 9} {
		random := rand.New(rand.NewPCG(1, uint64(d)))
		x := inputs(random, 60, d)
		past := &baselines.Past{}
		for i := range x {
			past.Look(x[i])
			for j := range i {
				mean := 0.0
				for k, kernel := range baselines.Kernels() {
					want := kernel.Value(x[j], x[i])
					near(t, kernel.Name, past.Row(k)[j], want, 2e-13)
					near(t, kernel.Name, past.Self(k), kernel.Value(x[i], x[i]), 1e-13)
					if k < baselines.Dictionary {
						mean += want / baselines.Dictionary
					}
				}
				near(t, "mean", past.Mean()[j], mean, 2e-13)
			}
			if len(past.Row(0)) != i || len(past.Mean()) != i {
				t.Fatalf("%d values after %d inputs", len(past.Row(0)), i)
			}
		}
	}
}
