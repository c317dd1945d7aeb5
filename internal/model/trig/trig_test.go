package trig_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/trig"
)

// precision is enough bits for the largest double less a multiple of π/2, which
// leaves 62 bits fewer than a random one, with 100 to spare.
const precision = 1024 + 53 + 62 + 100

// exact computes sines and cosines with 100 correct bits or more.
type exact struct{ halfPi *big.Float }

func newExact() exact {
	// π = 16 arctan 1/5 − 4 arctan 1/239 (Machin), in integers.
	one := new(big.Int).Lsh(big.NewInt(1), precision+64)
	arctan := func(inverse int64) *big.Int {
		power := new(big.Int).Div(one, big.NewInt(inverse))
		sum, square := new(big.Int).Set(power), big.NewInt(inverse*inverse)
		for n := int64(1); power.Sign() > 0; n++ {
			power.Div(power, square)
			term := new(big.Int).Div(power, big.NewInt(2*n+1))
			if n%2 == 1 {
				term.Neg(term)
			}
			sum.Add(sum, term)
		}
		return sum
	}
	pi := new(big.Int).Mul(big.NewInt(16), arctan(5))
	pi.Sub(pi, new(big.Int).Mul(big.NewInt(4), arctan(239)))
	halfPi := new(big.Float).SetPrec(precision).SetInt(pi)
	return exact{halfPi.SetMantExp(halfPi, -(precision + 65))}
}

func (e exact) sincos(x float64) (sine, cosine *big.Float) {
	bits := uint(2 * precision)
	if math.Abs(x) < 0x1p100 {
		bits = 512
	}
	wide := func() *big.Float { return new(big.Float).SetPrec(bits) }
	angle := wide().SetFloat64(x)
	multiple := wide().Quo(angle, e.halfPi)
	multiple.Add(multiple, big.NewFloat(math.Copysign(0.5, x)))
	n, _ := multiple.Int(nil)
	angle.Sub(angle, wide().Mul(wide().SetInt(n), wide().Set(e.halfPi)))
	r := new(big.Float).SetPrec(200).Set(angle)
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	square := number(0).Mul(r, r)
	series := func(first *big.Float, k float64) *big.Float {
		sum, term := number(0).Set(first), number(0).Set(first)
		for range 24 {
			term.Mul(term, square)
			term.Quo(term, number(-(k+1)*(k+2)))
			sum.Add(sum, term)
			k += 2
		}
		return sum
	}
	sine, cosine = series(r, 1), series(number(1), 0)
	switch new(big.Int).And(n, big.NewInt(3)).Int64() { // In two's complement.
	case 1:
		sine, cosine = cosine, sine.Neg(sine)
	case 2:
		sine, cosine = sine.Neg(sine), cosine.Neg(cosine)
	case 3:
		sine, cosine = cosine.Neg(cosine), sine
	default:
	}
	return sine, cosine
}

// ulps is the distance of got from want in units of the last place of want.
func ulps(got float64, want *big.Float) float64 {
	nearest, _ := want.Float64()
	_, exponent := math.Frexp(nearest)
	difference := new(big.Float).SetPrec(300).Sub(want, big.NewFloat(got))
	// Frexp is of [1/2, 1). The last place of a subnormal number is 2^-1074.
	difference.SetMantExp(difference, -max(exponent-53, -1074))
	distance, _ := difference.Abs(difference).Float64()
	return distance
}

// hardest are, of the doubles of every exponent, some that are next to a
// multiple of π/2: with α = 2^e 2/π, m α is near an integer when m is the
// denominator of a convergent of α, or a multiple of it.
func (e exact) hardest() []float64 {
	var angles []float64
	for exponent := -60; exponent <= 971; exponent++ {
		alpha := new(big.Float).SetPrec(precision).Quo(big.NewFloat(1), e.halfPi)
		alpha.SetMantExp(alpha, exponent)
		before, last := big.NewInt(0), big.NewInt(1) // Denominators.
		for range 200 {
			whole, _ := alpha.Int(nil)
			alpha.Sub(alpha, new(big.Float).SetInt(whole))
			if alpha.Sign() == 0 {
				break
			}
			alpha.Quo(big.NewFloat(1).SetPrec(precision), alpha)
			next, _ := alpha.Int(nil)
			next.Mul(next, last).Add(next, before)
			before, last = last, next
			if last.BitLen() > 53 {
				break
			}
		}
		m := before.Int64()
		for ; m < 1<<52; m *= 2 { // Keeps the multiple next.
			if 3*m >= 1<<52 && 3*m < 1<<53 {
				angles = append(angles, math.Ldexp(float64(3*m), exponent))
			}
		}
		angles = append(angles, math.Ldexp(float64(m), exponent))
	}
	return angles
}

// special are zeros, the smallest and the largest numbers, and the limits of the
// ways through the code, with the multiples of π/2 beside them.
func special() []float64 {
	angles := []float64{
		0, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-1023, 0x1p-600, 0x1p-27, 0x1p-26, math.Pi / 4, math.Pi, 1, 2, 3,
		1e100, math.MaxFloat64, 0x1p971, 6381956970095103 * 0x1p797, 1647098, 1647099, 1647100,
	}
	for k := 1; k < 400; k++ {
		angles = append(angles, float64(k)*(math.Pi/2), float64(k)*(math.Pi/4))
	}
	for _, x := range angles {
		angles = append(angles, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1)))
	}
	finite := angles[:0]
	for _, x := range angles {
		if !math.IsInf(x, 0) {
			finite = append(finite, x)
		}
	}
	return finite
}

// The error that the package documents is what is found here.
func TestErrorIsAsStated(t *testing.T) {
	const stated = 0.78
	e := newExact()
	rng := rand.New(rand.NewPCG(51, 52))
	random := func(n int, draw func() float64) []float64 {
		angles := make([]float64, n)
		for i := range angles {
			angles[i] = draw()
		}
		return angles
	}
	count, hard := 2000, e.hardest()
	if testing.Short() || modeltest.RaceDetector {
		count, hard = 200, hard[:len(hard)/8]
	}
	for name, angles := range map[string][]float64{
		"near multiples of a right angle": hard,
		"special":                         special(),
		"within a right angle":            random(4*count, func() float64 { return (rng.Float64() - 0.5) * math.Pi }),
		"ordinary":                        random(count, func() float64 { return rng.NormFloat64() * 10 }),
		"large":                           random(count, func() float64 { return (rng.Float64() - 0.5) * 3e6 }),
		"of all magnitudes":               random(count, func() float64 { return math.Ldexp(rng.Float64()+1, rng.IntN(2098)-1074) }),
	} {
		sines, cosines := make([]float64, len(angles)), make([]float64, len(angles))
		trig.Sincos(sines, cosines, angles)
		worst, at := 0.0, 0.0
		for i, x := range angles {
			sine, cosine := e.sincos(x)
			if miss := max(ulps(sines[i], sine), ulps(cosines[i], cosine)); miss > worst {
				worst, at = miss, x
			}
		}
		t.Logf("%s: at most %.4f units in the last place, at %g", name, worst, at)
		assert.True(t, worst <= stated, "%s: %g units in the last place at %g, want at most %g", name, worst, at, stated)
		negative, otherSines, otherCosines := append([]float64(nil), angles...), make([]float64, len(angles)), make([]float64, len(angles))
		for i := range angles {
			negative[i] = -negative[i]
			sines[i] = -sines[i]
		}
		trig.Sincos(otherSines, otherCosines, negative)
		assert.True(t, sameBits(sines, otherSines) && sameBits(cosines, otherCosines), "%s: the sine is not odd, or the cosine not even", name)
	}
}

func TestZerosAndWhatIsNoAngle(t *testing.T) {
	angles := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1}
	sines, cosines := make([]float64, 6), make([]float64, 6)
	trig.Sincos(sines, cosines, angles)
	assert.True(t, sameBits(sines[:2], angles[:2]) && sameBits(cosines[:2], []float64{1, 1}), "of 0 and -0: %g, %g", sines[:2], cosines[:2])
	for i := 2; i < 5; i++ {
		assert.True(t, math.IsNaN(sines[i]) && math.IsNaN(cosines[i]), "of %g: %g, %g", angles[i], sines[i], cosines[i])
	}
	assert.False(t, math.Abs(sines[5]-math.Sin(1)) > 1e-15 || math.Abs(cosines[5]-math.Cos(1)) > 1e-15, "of 1 beside them: %g, %g", sines[5], cosines[5])
}

// One set of bits for every target: these were computed once.
func TestBitsAreThese(t *testing.T) {
	for _, want := range []struct {
		angle        float64
		sine, cosine uint64
	}{
		{0.5, 0x3fdeaee8744b05f0, 0x3fec1528065b7d50},
		{-1, 0xbfeaed548f090cee, 0x3fe14a280fb5068c},
		{2, 0x3fed18f6ead1b446, 0xbfdaa22657537205},
		{100, 0xbfe03425b78c4db8, 0x3feb981dbf665fdf},
		{22, 0xbf8220a29f6eb9f4, 0xbfefffadd8d4acda},
		{355, 0xbeff9bd0307d1de3, 0xbfefffffffc18e4c},
		{-1e6, 0x3fd6664b2568d867, 0x3fedf9df9906d32c},
		{1e7, 0x3fdaea414a8a3352, 0xbfed085be7a8f4a1},
		{1e22, 0xbfeb453ab76bf397, 0x3fe0be2cef01c8f4},
		{1e300, 0xbfea2c16b010e385, 0xbfe2699022adc4c1},
		{6381956970095103 * 0x1p797, 0x3ff0000000000000, 0xbc214ae72e6ba22f},
		{0x1p-1074, 0x0000000000000001, 0x3ff0000000000000},
	} {
		sine, cosine := []float64{want.angle}, []float64{0}
		trig.Sincos(sine, cosine, sine)
		if math.Float64bits(sine[0]) != want.sine || math.Float64bits(cosine[0]) != want.cosine {
			t.Errorf("of %g: %#x, %#x, want %#x, %#x", want.angle, math.Float64bits(sine[0]), math.Float64bits(cosine[0]), want.sine, want.cosine)
		}
	}
}

// What the processor has gives the bits of the Go, for every length and
// alignment, in place or not, with angles that are not ordinary among others.
func TestSincosIsItsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(53, 54))
	for n := range 70 {
		for trial := range 20 {
			angles := make([]float64, n)
			for i := range angles {
				angles[i] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(6)))
				if trial%2 == 1 && rng.IntN(6) == 0 {
					angles[i] = math.Float64frombits(rng.Uint64()) // NaN and infinities too.
				}
			}
			checkTwin(t, angles)
		}
	}
}

func FuzzSincosIsItsTwin(f *testing.F) {
	f.Add(0.0, 1.0, -2.0, 1e6, 1e300)
	f.Add(math.NaN(), math.Inf(1), 0x1p-1074, math.Copysign(0, -1), 1647099.0)
	f.Fuzz(func(t *testing.T, a, b, c, d, e float64) { checkTwin(t, []float64{a, b, c, d, e, a + b, c * d}) })
}

func checkTwin(t *testing.T, angles []float64) {
	t.Helper()
	n := len(angles)
	sines, cosines, twinS, twinC := beside(n), beside(n), beside(n), beside(n)
	trig.Sincos(sines, cosines, angles)
	trig.SincosGo(twinS, twinC, angles)
	require.True(t, sameBits(sines, twinS) && sameBits(cosines, twinC), "of %g:\n%g\n%g, in Go\n%g\n%g", angles, sines, cosines, twinS, twinC)
	require.True(t, sines[n] == 7 && cosines[n] == 7, "%d angles: writes beside them", n)
	inSines, inCosines := append([]float64(nil), angles...), append([]float64(nil), angles...)
	trig.Sincos(inSines, cosines, inSines)
	trig.Sincos(sines, inCosines, inCosines)
	require.True(t, sameBits(inSines, twinS[:n]) && sameBits(inCosines, twinC[:n]), "of %g in place:\n%g\n%g, want\n%g\n%g", angles, inSines, inCosines, twinS, twinC)
}

// beside is n numbers and a 7 behind them.
func beside(n int) []float64 {
	v := make([]float64, n+1)
	v[n] = 7
	return v
}

func sameBits(a, b []float64) bool {
	for i, v := range a {
		if math.Float64bits(v) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestShortResultsPanic(t *testing.T) {
	for _, lengths := range [][2]int{{2, 3}, {3, 2}} {
		func() {
			defer func() { assert.NotNil(t, recover(), "%v for 3 angles: no panic", lengths) }()
			trig.Sincos(make([]float64, lengths[0]), make([]float64, lengths[1]), make([]float64, 3))
		}()
	}
}
