//go:build !purego

package loops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"

	"hindsight/internal/model/loops"
)

// pass is a pass of TurnRows over two factors of random numbers, whose rows begin offset numbers
// behind the beginning of their slices. It returns all that the pass writes, and numbers beside.
func pass(seed uint64, order, columns, offset, wide int) (all []float64) {
	rng, turns := rand.New(rand.NewPCG(seed, 1)), make([]loops.Turn, 2)
	var written [][]float64
	numbers := func(n int) *float64 {
		s := make([]float64, n+16)
		for i := range s {
			if s[i] = rng.NormFloat64(); rng.IntN(6) == 0 {
				s[i] = 0
			}
		}
		written = append(written, s)
		return &s[offset]
	}
	for i := range turns {
		turns[i] = loops.Turn{
			Data: numbers(order * (order + columns + loops.Line)), Row: numbers(order + columns), Priors: numbers(columns),
			Right: numbers(order * columns), Diagonal: numbers(order),
			C: rng.Float64(), S: rng.Float64(), Gamma: 1, Left: 1, Root: 1 - 0.5*float64(i),
		}
	}
	loops.TurnAVX2(&turns[0], int(unsafe.Sizeof(turns[0])), len(turns), 0, order, columns, 0, wide)
	for _, t := range turns {
		all = append(all, t.C, t.S, float64(t.Still), t.Gamma, t.Leverage, t.Left)
	}
	for _, s := range written {
		all = append(all, s...)
	}
	return all
}

// A row turned with registers of 512 bits has the bits of one turned with 256, for every length
// and alignment, and the pass writes nothing else. Tests of package qr compare it with Go.
func TestWidePassHasTheBitsOfTheNarrowOne(t *testing.T) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasAVX512F {
		t.Skip("the processor has no AVX-512")
	}
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	for order := 1; order <= 70; order++ {
		for offset := range 8 {
			columns, seed := 1+offset%3, uint64(100*order+offset)
			narrow := pass(seed, order, columns, offset, math.MaxInt)
			for _, wide := range []int{1, 32} {
				if got := pass(seed, order, columns, offset, wide); !slices.EqualFunc(got, narrow, same) {
					t.Fatalf("order %d, %d columns, offset %d, from %d entries on: %g, want %g", order, columns, offset, wide, got, narrow)
				}
			}
		}
	}
}

// Groups that turn a row with registers of 512 bits have the bits of 256, for every length and
// alignment, and write nothing else. Tests of package qr compare them with turns alone.
func TestWideGroupsHaveTheBitsOfNarrowOnes(t *testing.T) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasAVX512F {
		t.Skip("the processor has no AVX-512")
	}
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	for order := 1; order <= 100; order++ {
		for offset := range 8 {
			columns, seed := 1+offset%3, uint64(100*order+offset)
			narrow, wide := grouped(seed, order, columns, offset, math.MaxInt), grouped(seed, order, columns, offset, 32)
			if !slices.EqualFunc(wide, narrow, same) {
				t.Fatalf("order %d, %d columns, offset %d: %g, want %g", order, columns, offset, wide, narrow)
			}
		}
	}
}

// grouped returns all numbers that turnGroupsAVX2 may have written, after two groups have turned the first row of a factor.
func grouped(seed uint64, order, columns, offset, wide int) (all []float64) {
	rng, groups := rand.New(rand.NewPCG(seed, 2)), make([]loops.Group, 2)
	var written [][]float64
	numbers := func(n int) *float64 {
		s := make([]float64, n+16)
		for i := range s {
			s[i] = rng.NormFloat64()
		}
		written = append(written, s)
		return &s[offset]
	}
	for i := range groups {
		g := &groups[i]
		for n := range g.Rows {
			g.Rows[n], g.Priors[n] = numbers(order+columns), numbers(columns)
			g.C[n], g.S[n], g.V[n], g.Gamma[n], g.Left[n] = rng.Float64(), rng.Float64(), rng.Float64(), 1, 1
		}
	}
	done := loops.TurnGroupsAVX2(&groups[0], 2, numbers(2*(order+columns+loops.Line)), 0, order, columns, numbers(columns), numbers(order), wide)
	all = append(all, float64(done))
	for _, g := range groups {
		all = slices.Concat(all, g.C[:], g.S[:], g.V[:], g.Gamma[:], g.Leverage[:], g.Left[:], []float64{float64(g.Still)})
	}
	return slices.Concat(append(written, all)...)
}
