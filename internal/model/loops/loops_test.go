package loops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/loops"
)

// numbers are of all magnitudes, with zeros of both signs and subnormal ones.
func numbers(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		switch rng.IntN(8) {
		case 0:
			v[i] = math.Copysign(0, rng.Float64()-0.5)
		case 1:
			v[i] = math.Float64frombits(rng.Uint64() >> 12) // Subnormal.
		case 2:
			v[i] = rng.NormFloat64() * math.Pow(10, 300*(rng.Float64()-0.5))
		default:
			v[i] = rng.NormFloat64()
		}
	}
	return v
}

func clone(v []float64) []float64 { return append([]float64(nil), v...) }

func sameBits(a, b []float64) bool {
	for i, v := range a {
		// A NaN, of two infinite parts, may have any payload.
		if math.Float64bits(v) != math.Float64bits(b[i]) && !(math.IsNaN(v) && math.IsNaN(b[i])) {
			return false
		}
	}
	return len(a) == len(b)
}

// twins are the loops: each reads numbers, and writes n of them from offset on.
func twins() map[string][2]func(v, w []float64, offset, n int, c []float64) float64 {
	type loop = func(v, w []float64, offset, n int, c []float64) float64
	return map[string][2]loop{
		"rotate": {
			func(v, w []float64, offset, n int, c []float64) float64 {
				loops.Rotate(v[offset:offset+n], w[offset:], c[0], c[1], c[2], c[3])
				return 0
			},
			func(v, w []float64, offset, n int, c []float64) float64 {
				loops.RotateGo(v[offset:offset+n], w[offset:], c[0], c[1], c[2], c[3])
				return 0
			},
		},
		"axpy": {
			func(v, w []float64, offset, n int, c []float64) float64 {
				loops.Axpy(v[offset:offset+n], w[offset:], c[0])
				return 0
			},
			func(v, w []float64, offset, n int, c []float64) float64 {
				loops.AxpyGo(v[offset:offset+n], w[offset:], c[0])
				return 0
			},
		},
		"dot": {
			func(v, w []float64, offset, n int, _ []float64) float64 {
				return loops.Dot(v[offset:offset+n], w[offset:offset+n])
			},
			func(v, w []float64, offset, n int, _ []float64) float64 {
				return loops.DotGo(v[offset:offset+n], w[offset:offset+n])
			},
		},
		"scale": {
			func(v, _ []float64, offset, n int, c []float64) float64 {
				loops.Scale(v[offset:offset+n], c[0])
				return 0
			},
			func(v, _ []float64, offset, n int, c []float64) float64 {
				loops.ScaleGo(v[offset:offset+n], c[0])
				return 0
			},
		},
		"descend": {
			func(v, w []float64, offset, n int, c []float64) float64 {
				return loops.Descend(v[offset:offset+n], w[offset:], c[0], c[1])
			},
			func(v, w []float64, offset, n int, c []float64) float64 {
				return loops.DescendGo(v[offset:offset+n], w[offset:], c[0], c[1])
			},
		},
	}
}

// The loops that the processor has give the bits of those in Go, for every
// length and alignment, and write nothing beside their rows.
func TestLoopsAreTheirTwins(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for n := range 80 {
		for offset := range 4 {
			a, b, c := numbers(rng, n+8), numbers(rng, n+8), numbers(rng, 4)
			for name, loop := range twins() {
				v, w, twinV, twinW := clone(a), clone(b), clone(a), clone(b)
				got, want := loop[0](v, w, offset, n, c), loop[1](twinV, twinW, offset, n, c)
				if !sameBits(v, twinV) || !sameBits(w, twinW) || !sameBits([]float64{got}, []float64{want}) {
					t.Fatalf("%s of %d numbers at %d: %g\n%v\n%v, in Go %g\n%v\n%v", name, n, offset, got, v, w, want, twinV, twinW)
				}
				require.True(t, sameBits(v[:offset], a[:offset]) && sameBits(v[offset+n:], a[offset+n:]), "%s of %d numbers at %d writes beside them", name, n, offset)
			}
		}
	}
}

func TestCombineIsItsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for n := range 70 {
		for d := range 6 {
			columns, x := numbers(rng, n*d+3), numbers(rng, d)
			y := numbers(rng, n+5)
			twin := clone(y)
			loops.Combine(y[1:n+1], columns, x)
			loops.CombineGo(twin[1:n+1], columns, x)
			require.True(t, sameBits(y, twin), "%d columns of %d numbers: %v, in Go %v", d, n, y, twin)
			for i, got := range y[1 : n+1] {
				want := 0.0
				for j, v := range x {
					want += float64(v * columns[j*n+i])
				}
				require.True(t, sameBits([]float64{got}, []float64{want}), "%d columns of %d numbers: entry %d is %g, want %g", d, n, i, got, want)
			}
		}
	}
}

// Rows added together have the bits of rows added one by one.
func TestAddSquaresIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for order := range 70 {
		for _, count := range []int{0, 1, loops.Rows - 1, loops.Rows} {
			stride := order + rng.IntN(4)
			packed, rows, weights := numbers(rng, order*(order+1)/2+5), numbers(rng, stride*loops.Rows+order), numbers(rng, count)
			plain := clone(packed)
			loops.AddSquares(packed, rows, stride, order, weights)
			for n, w := range weights {
				at := 0
				for i := range order {
					for j := i; j < order; j++ {
						plain[at] += float64(float64(w*rows[n*stride+i]) * rows[n*stride+j])
						at++
					}
				}
			}
			require.True(t, sameBits(packed, plain), "%d rows of %d numbers: %v, one by one %v", count, order, packed, plain)
		}
	}
}

func BenchmarkLoops(b *testing.B) {
	rng := rand.New(rand.NewPCG(25, 26))
	c := []float64{1, 0, 1, 0}
	for _, n := range []int{20, 50, 100, 125} {
		v, w := make([]float64, n), make([]float64, n)
		for i := range v {
			v[i], w[i] = rng.NormFloat64(), rng.NormFloat64()
		}
		for name, loop := range twins() {
			for i, kind := range []string{"", " in Go"} {
				b.Run(fmt.Sprintf("%s/n=%d%s", name, n, kind), func(b *testing.B) {
					for b.Loop() {
						loop[i](v, w, 0, n, c)
					}
				})
			}
		}
	}
}

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

// Reach, Collect and Order have the results of Go, with many equal distances too.
func TestNearestAreThoseOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 700 {
		distances := make([]float32, n+rng.IntN(2)*2000)
		for i := range distances {
			distances[i] = float32(rng.IntN(1 + n*n))
		}
		bound := loops.Reach(distances, 1+n%loops.Shares)
		require.Equal(t, loops.ReachGo(distances, 1+n%loops.Shares), bound, "%v", distances)
		got, want := make([]uint64, rng.IntN(300)), make([]uint64, len(distances)+2*loops.Lanes)
		found, looked := loops.Collect(got, distances, bound)
		all, _ := loops.CollectGo(want, distances, bound)
		require.True(t, looked == len(distances) && found == all || len(got)-found < 2*loops.Lanes, "%d keys of %d distances", found, looked)
		require.Equal(t, want[:found], got[:found])
		dst := make([]uint64, found+loops.Lanes)
		loops.Order(dst, append(got[:found], make([]uint64, loops.Lanes)...)[:found])
		slices.Sort(want[:found])
		require.Equal(t, want[:found], dst[:found])
	}
}

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
