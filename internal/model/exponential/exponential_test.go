package exponential_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/modeltest"
)

// exact is e^x with 150 correct bits or more: e^(x/2^k) by its series, squared k
// times.
func exact(x float64) *big.Float {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	const squarings = 20
	r := number(x)
	r.SetMantExp(r, -squarings)
	sum, term := number(1), number(1)
	for k := 1; k <= 40; k++ {
		term.Mul(term, r)
		term.Quo(term, number(float64(k)))
		sum.Add(sum, term)
	}
	for range squarings {
		sum.Mul(sum, sum)
	}
	return sum
}

// ulps is the distance of got from want in units of the last place of want.
func ulps(got float64, want *big.Float) float64 {
	nearest, _ := want.Float64()
	_, exponent := math.Frexp(nearest)
	if nearest == 0 {
		exponent = -2000
	}
	difference := new(big.Float).SetPrec(300).Sub(want, big.NewFloat(got))
	difference.SetMantExp(difference, -max(exponent-53, -1074))
	distance, _ := difference.Abs(difference).Float64()
	return distance
}

// The error that the package documents is what is found here.
func TestErrorIsAsStated(t *testing.T) {
	const normal, subnormal = 0.9, 1
	rng := rand.New(rand.NewPCG(71, 72))
	x := []float64{0, 1, -1, math.Ln2, -math.Ln2, math.Ln2 / 2, -math.Ln2 / 2, 0x1p-1074, -0x1p-60, 709.78, -708.39, -745.13, -745.14, -745.9}
	count := 4000
	if testing.Short() || modeltest.RaceDetector {
		count = 600
	}
	for range count {
		x = append(x, -745+1454*rng.Float64(), rng.NormFloat64(), math.Ldexp(rng.NormFloat64(), -rng.IntN(60)))
		// In the middle between two multiples of log 2, where r is largest.
		x = append(x, math.Ln2*(0.5+float64(rng.IntN(2098)-1074))*(1+1e-9*rng.NormFloat64()))
	}
	got := make([]float64, len(x))
	exponential.Exp(got, x)
	worst, at, worstSubnormal := 0.0, 0.0, 0.0
	for i, v := range x {
		miss := ulps(got[i], exact(v))
		if got[i] < 0x1p-1022 {
			worstSubnormal = max(worstSubnormal, miss)
		} else if miss > worst {
			worst, at = miss, v
		}
	}
	t.Logf("at most %.4f units in the last place, at %g; %.4f where subnormal", worst, at, worstSubnormal)
	assert.True(t, worst <= normal && worstSubnormal <= subnormal, "%g units in the last place, at %g; %g where subnormal", worst, at, worstSubnormal)
}

func TestEnds(t *testing.T) {
	x := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 709.79, 1e300, -1e300, -746}
	want := []float64{1, 1, math.Inf(1), 0, math.NaN(), math.Inf(1), math.Inf(1), 0, 0}
	got := make([]float64, len(x))
	exponential.Exp(got, x)
	for i, v := range want {
		assert.True(t, got[i] == v || math.IsNaN(v) && math.IsNaN(got[i]), "of %g: %g, want %g", x[i], got[i], v)
	}
}

// One set of bits for every target: these were computed once.
func TestBitsAreThese(t *testing.T) {
	for _, want := range []struct {
		x    float64
		bits uint64
	}{
		{0.5, 0x3ffa61298e1e069c},
		{-1, 0x3fd78b56362cef38},
		{10, 0x40d5829dcf950560},
		{-20.25, 0x3e1b93de1e27ca3b},
		{300, 0x5afc05c0a7166b4a},
		{-700, 0x00d14f2b0fb9307f},
		{-740, 0x0000000000000055},
		{1e-10, 0x3ff000000006df38},
	} {
		got := []float64{want.x}
		exponential.Exp(got, got)
		assert.Equal(t, want.bits, math.Float64bits(got[0]), want.x)
	}
}

// What the processor has gives the bits of the Go, for every length, in place or
// not, and writes nothing beside.
func TestExpIsItsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	for n := range 40 {
		for trial := range 20 {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(4)))
				if trial%2 == 1 && rng.IntN(5) == 0 {
					x[i] = math.Float64frombits(rng.Uint64()) // NaN and infinities too.
				}
			}
			checkTwin(t, x)
		}
	}
}

func FuzzExpIsItsTwin(f *testing.F) {
	f.Add(0.0, 1.0, -2.0, 710.0, -745.2)
	f.Fuzz(func(t *testing.T, a, b, c, d, e float64) { checkTwin(t, []float64{a, b, c, d, e, a + b, c * d}) })
}

func checkTwin(t *testing.T, x []float64) {
	t.Helper()
	got, twin := append(make([]float64, len(x)), 7), append(make([]float64, len(x)), 7)
	exponential.Exp(got, x)
	exponential.ExpGo(twin, x)
	alone := append([]float64(nil), twin...)
	for i, v := range x {
		alone[i] = exponential.Of(v)
	}
	require.True(t, sameBits(alone, twin), "of %g: %g, one at a time %g", x, twin, alone)
	in := append([]float64(nil), x...)
	exponential.Exp(in, in)
	require.True(t, sameBits(got, twin) && sameBits(in, twin[:len(x)]) && got[len(x)] == 7, "of %g: %g, in place %g, in Go %g", x, got, in, twin)
}

func sameBits(a, b []float64) bool {
	for i, v := range a {
		// Which NaN it is, is not said.
		if math.Float64bits(v) != math.Float64bits(b[i]) && !(math.IsNaN(v) && math.IsNaN(b[i])) {
			return false
		}
	}
	return len(a) == len(b)
}

// Log is the library's logarithm, whose bits differ between targets, to a unit in
// the last place, wherever the number is.
func TestLog(t *testing.T) {
	check := func(x float64) {
		t.Helper()
		got, want := exponential.Log(x), math.Log(x)
		if x < 0x1p-1022 { // Where the library's has large errors on some targets.
			want = math.Log(x*0x1p200) - 200*math.Ln2
		}
		unit := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
		require.True(t, math.Abs(got-want) <= unit, "log %g is %.17g, want %.17g", x, got, want)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		if x := math.Abs(math.Float64frombits(rng.Uint64())); x > 0 && !math.IsInf(x, 0) && !math.IsNaN(x) {
			check(x)
		}
		check(rng.Float64() + 0.5)
	}
	for _, x := range []float64{
		1, 2, 0.5, math.Sqrt2, math.Sqrt2 / 2, math.Nextafter(1, 0), math.Nextafter(1, 2),
		math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022,
	} {
		check(x)
	}
	assert.EqualValues(t, 0, exponential.Log(1), "log 1 is not 0")
	for x, want := range map[float64]float64{0: math.Inf(-1), math.Inf(1): math.Inf(1)} {
		got := exponential.Log(x)
		assert.True(t, got == want, "log %g is %g", x, got)
	}
	assert.True(t, math.IsNaN(exponential.Log(-1)) && math.IsNaN(exponential.Log(math.NaN())), "the logarithm of what has none")
}

// These bits are those of every target.
func TestLogBits(t *testing.T) {
	var sum big.Int
	for n := range uint64(4000) {
		x := math.Float64frombits(n*0x0003_1234_5678_9abc + 1)
		if x > 0 && !math.IsInf(x, 0) {
			sum.Add(&sum, new(big.Int).SetUint64(math.Float64bits(exponential.Log(x))))
		}
	}
	const want = "55477796324946853603429"
	assert.EqualValues(t, want, sum.String(), &sum)
}

// Log1p is the library's to one unit in the last place, for small numbers and for large
// ones.
func TestLog1p(t *testing.T) {
	worst := 0.0
	check := func(x float64) {
		t.Helper()
		got, want := exponential.Log1p(x), math.Log1p(x)
		unit := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
		worst = max(worst, math.Abs(got-want)/unit)
		require.True(t, math.Abs(got-want) <= unit, "log1p %g is %.17g, want %.17g", x, got, want)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		check(rng.Float64())
		check(math.Ldexp(1+rng.Float64(), rng.IntN(2000)-1000))
	}
	t.Logf("at most %.1f units in the last place", worst)
	for _, x := range []float64{
		0x1p-53, 0x1.8p-53, 0x1p-54, 0x1p52, 0x1p53, 0x1p53 + 2, 1e300,
		math.MaxFloat64, math.SmallestNonzeroFloat64,
	} {
		check(x)
	}
	assert.EqualValues(t, 0, exponential.Log1p(0))
	for x, want := range map[float64]float64{-1: math.Inf(-1), math.Inf(1): math.Inf(1)} {
		got := exponential.Log1p(x)
		assert.True(t, got == want, "log1p %g is %g", x, got)
	}
	assert.True(t, math.IsNaN(exponential.Log1p(-1.5)) && math.IsNaN(exponential.Log1p(math.NaN())), "the logarithm of what has none")
}
