package exponential

import "math"

// On |s| ≤ 0.1716, with s = f/(2+f), to 2^-58.45:
//
//	log(1+f) = 2s + s R(s²),  R(z) = l1 z + l2 z² + … + l7 z⁷
const (
	l1 = 0x1.5555555555593p-01
	l2 = 0x1.999999997fa04p-02
	l3 = 0x1.2492494229359p-02
	l4 = 0x1.c71c51d8e78afp-03
	l5 = 0x1.7466496cb03dep-03
	l6 = 0x1.39a09d078c69fp-03
	l7 = 0x1.2f112df3e5244p-03
)

// Log is the natural logarithm of a positive finite number, to one unit in the
// last place. It has the same bits on every target. Of any other number it is
// math.Log.
//
// Source: fdlibm, as Exp.
func Log(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x)
	}
	fraction, e := math.Frexp(x) // x = fraction 2^e, fraction in [½, 1).
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		e--
	}
	n := float64(e)
	return series(fraction-1, float64(n*part1), float64(n*part2))
}

// Log1p is log(1+x) of a finite x ≥ 0, to one unit in the last place: no digit of a
// small x is lost. It has the same bits on every target. Of any other number it is
// math.Log1p.
//
// Source: fdlibm, as Exp: log(1+x) with u = 1+x rounded is log u + (1+x−u)/u.
func Log1p(x float64) float64 {
	const (
		small = 1.0 / (1 << 29)
		tiny  = 1.0 / (1 << 54)
	)
	switch {
	case !(x >= 0) || math.IsInf(x, 1):
		return math.Log1p(x)
	case x < tiny:
		return x
	case x < small:
		return x - float64(float64(x*x)*0.5)
	case x < math.Sqrt2-1:
		return series(x, 0, 0)
	}
	u, lost := 1+x, 0.0
	if x < 1<<53 {
		// What the sum has rounded away of the smaller.
		if x < 1 {
			lost = x - (u - 1)
		} else {
			lost = 1 - (u - x)
		}
		lost /= u
	}
	bits := math.Float64bits(u)
	n, fraction := float64(int(bits>>52)-1023), math.Float64frombits(bits&(1<<52-1)|1023<<52) // In [1, 2).
	if fraction >= math.Sqrt2 {
		fraction, n = float64(0.5*fraction), n+1
	}
	return series(fraction-1, float64(n*part1), float64(n*part2)+lost)
}

// series is high + log(1+f) + low for f in [√½ − 1, √2 − 1].
func series(f, high, low float64) float64 {
	s := f / (2 + f)
	z := float64(s * s)
	w := float64(z * z)
	even := float64(w*l6) + l4
	even = float64(w*even) + l2
	odd := float64(w*l7) + l5
	odd = float64(w*odd) + l3
	odd = float64(w*odd) + l1
	r := float64(w*even) + float64(z*odd)
	half := float64(0.5 * float64(f*f))
	return high - ((half - (float64(s*(half+r)) + low)) - f)
}
