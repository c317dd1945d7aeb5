package loops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"hindsight/internal/model/loops"
)

func TestCellsHaveTheBitsOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, grids := range []int{0, 3, 4, 12, 32} {
		for _, inputs := range []int{0, 1, 5, 14} {
			z, scales, shifts := numbers(rng, inputs), make([]float64, grids*inputs), make([]float64, grids*inputs)
			keys, got, want := make([]uint64, grids*inputs), make([]uint64, grids), make([]uint64, grids)
			for i := range keys {
				scales[i], shifts[i], keys[i] = math.Exp(4*rng.NormFloat64()), rng.Float64(), rng.Uint64()
			}
			loops.Cells(got, z, scales, shifts, keys)
			loops.CellsGo(want, z, scales, shifts, keys)
			if !slices.Equal(got, want) {
				t.Errorf("%d grids of %d inputs: %x, want %x", grids, inputs, got, want)
			}
		}
	}
}

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
			if !slices.Equal(got, want) {
				t.Errorf("%d rows of %d columns: %g, want %g", n, columns, got, want)
			}
		}
	}
}

func BenchmarkCells(b *testing.B) {
	for _, inputs := range []int{4, 12, 27} {
		const grids = 32
		tables, keys, hashes := make([]float64, grids*inputs), make([]uint64, grids*inputs), make([]uint64, grids)
		b.Run(strconv.Itoa(inputs), func(b *testing.B) {
			for b.Loop() {
				loops.Cells(hashes, tables[:inputs], tables, tables, keys)
			}
		})
	}
}

func BenchmarkDistances(b *testing.B) {
	for _, columns := range []int{8, 16, 32} {
		stride := columns + 11
		dst, rows := make([]float32, 8192), make([]float32, 8192*stride)
		b.Run(strconv.Itoa(columns), func(b *testing.B) {
			for b.Loop() {
				loops.Distances(dst, rows, stride, rows[:columns], rows[:columns])
			}
		})
	}
}
