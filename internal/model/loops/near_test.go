package loops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/loops"
)

func TestDistancesHaveTheBitsOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 14 {
		for _, columns := range []int{0, 8, 16, 32} {
			stride := columns + 7
			rows, z, weights := make([]float32, n*stride), make([]float32, columns), make([]float32, columns)
			for _, s := range [][]float32{rows, z, weights} {
				for i := range s {
					s[i] = float32(rng.NormFloat64() * math.Exp(5*rng.NormFloat64()))
				}
			}
			got, want := make([]float32, n), make([]float32, n)
			loops.Distances(got, rows, stride, z, weights)
			loops.DistancesGo(want, rows, stride, z, weights)
			assert.True(t, slices.Equal(got, want), "%d rows of %d columns: %g, want %g", n, columns, got, want)
		}
	}
}

func TestMinimaHaveTheBitsOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 127, 128, 129, 1000, 8192} {
		distances := make([]float32, n)
		for i := range distances {
			distances[i] = float32(math.Exp(5 * rng.NormFloat64()))
		}
		var got, want [loops.Shares]uint32
		for k := range got {
			got[k] = math.Float32bits(float32(1 + k))
		}
		want = got
		loops.Minima(&got, distances)
		loops.MinimaGo(&want, distances)
		assert.True(t, got == want, "%d distances: %v, want %v", n, got, want)
	}
}
