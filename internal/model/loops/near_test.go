package loops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/loops"
)

func TestDistancesHaveTheBitsOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for blocks := range 4 {
		for columns := range 20 {
			stride := columns + 1 + columns%3
			rows, z, weights := make([]float32, blocks*stride*loops.Lanes), make([]float32, columns), make([]float32, columns)
			for _, s := range [][]float32{rows, z, weights} {
				for i := range s {
					s[i] = float32(rng.NormFloat64() * math.Exp(5*rng.NormFloat64()))
				}
			}
			got, want := make([]float32, blocks*loops.Lanes), make([]float32, blocks*loops.Lanes)
			assert.Equal(t, len(got), loops.Distances(got, rows, stride, z, weights))
			loops.DistancesGo(want, rows, stride, z, weights)
			assert.Equal(t, want, got, "%d blocks of %d columns", blocks, columns)
		}
	}
}

func TestWithinFindsTheFirstDistance(t *testing.T) {
	for n := range 70 {
		for first := range n + 1 {
			distances := make([]float32, n)
			for i := range distances {
				distances[i] = 2
				if i == first || i > first && i%5 == 0 {
					distances[i] = 1
				}
			}
			assert.Equal(t, first, loops.Within(distances, math.Float32bits(1)))
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
