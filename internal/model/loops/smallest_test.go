package loops_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"hindsight/internal/model/loops"
)

func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	for n := range 200 {
		values := make([]float64, 1+n)
		for i := range values {
			values[i] = float64(rng.IntN(1 + n/2)) // Often equal.
		}
		sorted, k := slices.Clone(values), rng.IntN(len(values))
		slices.Sort(sorted)
		if got := loops.Smallest(values, k); got != sorted[k] {
			t.Fatalf("number %d of %v is %g", k, sorted, got)
		}
	}
}
