package ziggurat_test

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/ziggurat"
)

// script is a source of given numbers, which counts those that were taken.
type script struct {
	numbers []uint64
	taken   int
}

func (s *script) Uint64() uint64 {
	n := s.numbers[s.taken%len(s.numbers)]
	s.taken++
	return n
}

// unfused skips a test where the library's arithmetic is fused.
func unfused(t *testing.T) {
	t.Helper()
	for _, v := range []float64{1 + 0x1p-30} { // No constant for the compiler.
		if v*v+(-1-0x1p-29) != 0 {
			t.Skip("the library has other bits where the compiler fuses its sums")
		}
	}
}

// What is drawn is what math/rand/v2 draws on amd64, to the last bit, and takes as many
// numbers of the source.
func TestDrawsAreThoseOfTheLibrary(t *testing.T) {
	unfused(t)
	draws := 20_000_000
	if testing.Short() || modeltest.RaceDetector {
		draws = 500_000
	}
	for seed := range uint64(4) {
		library, ours := rand.New(rand.NewPCG(seed, 1)), ziggurat.New(rand.New(rand.NewPCG(seed, 1)))
		for n := range draws / 4 {
			if want, got := library.NormFloat64(), ours.Normal(); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("seed %d, normal draw %d: %v, the library's %v", seed, n, got, want)
			}
			if want, got := library.ExpFloat64(), ours.Exponential(); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("seed %d, exponential draw %d: %v, the library's %v", seed, n, got, want)
			}
		}
	}
}

// least is the least number up to most for which is says true, most if it never does.
func least(most uint64, is func(uint64) bool) uint64 {
	low := uint64(0)
	for low < most {
		if at := (low + most) / 2; is(at) {
			most = at
		} else {
			low = at + 1
		}
	}
	return low
}

// The tables are the library's to the last bit: which number is surely within its strip,
// and which height of a point is under the density.
func TestTablesAreThoseOfTheLibrary(t *testing.T) {
	unfused(t)
	tables := ziggurat.New(nil)
	over := func(s rand.Source) *ziggurat.Rand {
		tables.Rand = rand.New(s)
		return tables
	}
	drawn := func(draw func(rand.Source) float64, numbers ...uint64) (float64, int) {
		// What follows is in the middle of a wide strip, and accepted.
		s := &script{numbers: append(numbers, 64<<32|1<<20)}
		return draw(s), s.taken
	}
	for name, c := range map[string]struct {
		strips        uint64
		library, ours func(rand.Source) float64
		values        uint64
	}{
		"normal": {
			strips: 128, values: 1 << 31,
			library: func(s rand.Source) float64 { return rand.New(s).NormFloat64() },
			ours:    func(s rand.Source) float64 { return over(s).Normal() },
		},
		"exponential": {
			strips: 256, values: 1 << 32,
			library: func(s rand.Source) float64 { return rand.New(s).ExpFloat64() },
			ours:    func(s rand.Source) float64 { return over(s).Exponential() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for strip := range c.strips {
				// The least number of the strip that is not surely within it.
				edge := least(c.values-1, func(at uint64) bool {
					_, taken := drawn(c.library, strip<<32|at)
					return taken > 1
				})
				for _, at := range []uint64{0, 1, max(edge, 1) - 1, edge, min(edge+1, c.values-1), c.values/2 + edge/2, c.values - 1} {
					// The least height that is above the density, of 53 bits.
					height := least(1<<53-1, func(height uint64) bool {
						_, taken := drawn(c.library, strip<<32|at, height)
						return taken > 2
					})
					for _, height := range []uint64{0, 1, max(height, 1) - 1, height, 1<<53 - 1} {
						want, taken := drawn(c.library, strip<<32|at, height)
						got, ourTaken := drawn(c.ours, strip<<32|at, height)
						if want != got || taken != ourTaken {
							t.Fatalf("strip %d at %d: %v of %d numbers, the library's %v of %d", strip, at, got, ourTaken, want, taken)
						}
					}
				}
			}
		})
	}
}

// One set of bits for every target: these were computed once. Among a million draws are
// hundreds of the tails.
func TestBitsAreThese(t *testing.T) {
	z, sum, tails := ziggurat.New(rand.New(rand.NewPCG(31, 32))), fnv.New64a(), 0
	var bits [8]byte
	for range 500_000 {
		n, e := z.Normal(), z.Exponential()
		for _, v := range []float64{n, e} {
			binary.LittleEndian.PutUint64(bits[:], math.Float64bits(v))
			_, _ = sum.Write(bits[:])
		}
		if math.Abs(n) > 3.442619855899 || e > 7.69711747013104972 {
			tails++
		}
	}
	if got := sum.Sum64(); got != 0xd42c4de7821ea363 || tails < 300 {
		t.Errorf("%#x, %d of the tails", got, tails)
	}
}
