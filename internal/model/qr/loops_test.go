package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/qr"
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
		if math.Float64bits(v) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// The loops that the processor has give the bits of those in Go, for every
// length and alignment, and write nothing beside their rows.
func TestLoopsAreTheirTwins(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for n := range 80 {
		for offset := range 4 {
			a, b, c := numbers(rng, n+8), numbers(rng, n+8), numbers(rng, 4)
			own, in := clone(a), clone(b)
			qr.Rotate(own[offset:offset+n], in[offset:], c[0], c[1], c[2], c[3])
			twin, other := clone(a), clone(b)
			qr.RotateGo(twin[offset:offset+n], other[offset:], c[0], c[1], c[2], c[3])
			if !sameBits(own, twin) || !sameBits(in, other) {
				t.Fatalf("rotate %d numbers at %d:\n%v\n%v, in Go\n%v\n%v", n, offset, own, in, twin, other)
			}
			own, twin = clone(a), clone(a)
			qr.Axpy(own[offset:offset+n], b[offset:], c[0])
			qr.AxpyGo(twin[offset:offset+n], b[offset:], c[0])
			if !sameBits(own, twin) {
				t.Fatalf("axpy of %d numbers at %d:\n%v, in Go\n%v", n, offset, own, twin)
			}
			x, y := a[offset:offset+n], b[offset:offset+n]
			if got, want := qr.Dot(x, y), qr.DotGo(x, y); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("dot of %d numbers at %d: %g, in Go %g", n, offset, got, want)
			}
		}
	}
}
