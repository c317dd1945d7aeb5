package exponential_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/exponential"
)

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
