package trees_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/trees"
)

// histogram has rows of the largest sums, equal bins and empty ones.
func histogram(rng *rand.Rand, count int) (h [trees.GroupSize]int64, total int64) {
	scale := int64(1) << (8 + rng.IntN(40))
	for range count {
		residual := rng.Int64N(2*scale) - scale
		packed := trees.Pack(residual)
		if rng.IntN(20) == 0 {
			packed = trees.Pack(1 << 60)
		}
		for lane := range trees.Lanes {
			bin := rng.IntN(64)
			if lane == 1 {
				bin = bin / 16 * 5
			}
			h[trees.Lanes*bin+lane] += packed
		}
		total += packed
	}
	return h, total
}

func TestLoopsEqualTheirTwins(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 2000 {
		h, total := histogram(rng, 1+rng.IntN(1<<rng.IntN(14)))
		for _, least := range []float64{1, 2, 5} {
			edges := 63 - round%2*rng.IntN(64)
			got, want := trees.Best(&h, edges, total, least), trees.BestGo(&h, edges, total, least)
			require.True(t, got == want, "round %d: best split %+v, want %+v", round, got, want)
		}
		other, _ := histogram(rng, 100)
		a, b := h, h
		trees.Derive(&a, &other)
		trees.DeriveGo(&b, &other)
		require.True(t, a == b, "round %d: another difference", round)
		const slots = 300
		packed, rows := make([]int64, slots), make([]uint16, rng.IntN(slots))
		var codes [trees.Lanes][]uint8
		for lane := range codes {
			codes[lane] = make([]uint8, slots)
			for i := range codes[lane] {
				codes[lane][i] = uint8(trees.Lanes * rng.IntN(64))
			}
		}
		for i := range packed {
			packed[i] = rng.Int64()
		}
		for i := range rows {
			rows[i] = uint16(rng.IntN(slots))
		}
		got, want := h, h
		trees.AddRows(&got, rows, packed, &codes)
		trees.AddRowsGo(&want, rows, packed, &codes)
		require.True(t, got == want, "round %d: another histogram", round)
	}
}

func TestLeavesEqualTheirTwin(t *testing.T) {
	for _, capacity := range []int{97, 1000} {
		s, _ := fed(trees.Options{Inputs: 3, Columns: allKinds()}, capacity, 1053)
		open := 0
		for column := range trees.Kinds {
			for number := range trees.Trees {
				got, want, exact := s.f.Leaves(column, number)
				require.True(t, slices.EqualFunc(got, want, slices.Equal), "column %d, tree %d: %v, want %v", column, number, got, want)
				if !exact {
					open++
				}
			}
		}
		assert.True(t, open != 0 && open != trees.Kinds*trees.Trees, "%d trees have cut points that are not present", open)
	}
}

func BenchmarkBest(b *testing.B) {
	h, total := histogram(rand.New(rand.NewPCG(5, 6)), 5000)
	for b.Loop() {
		trees.Best(&h, 63, total, 5)
	}
}

func BenchmarkAddRows(b *testing.B) {
	const slots = 8192
	rng := rand.New(rand.NewPCG(5, 6))
	packed, rows := make([]int64, slots), make([]uint16, slots)
	var codes [trees.Lanes][]uint8
	for lane := range codes {
		codes[lane] = make([]uint8, slots)
		for i := range codes[lane] {
			codes[lane][i] = uint8(trees.Lanes * rng.IntN(64))
		}
	}
	for i := range rows {
		rows[i] = uint16(i)
	}
	var h [trees.GroupSize]int64
	for b.Loop() {
		trees.AddRows(&h, rows, packed, &codes)
	}
}
