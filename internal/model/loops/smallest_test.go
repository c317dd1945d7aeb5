package loops_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
		require.Equal(t, sorted[k], loops.Smallest(values, k), "number %d of %v", k, sorted)
	}
}
