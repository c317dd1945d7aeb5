package input

import "math"

// symmetricLog1p is sign(v) log(1 + |v|).
func symmetricLog1p(v float64) float64 { return math.Copysign(log1p(math.Abs(v)), v) }

// log1p is log(1 + x) for a finite x ≥ 0, to an error below one unit in the last
// place. That of package math may have other bits on another target.
//
// The reduction 1 + x = 2^k (1 + f) and the polynomial are those of fdlibm:
//
//	Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//	Developed at SunPro, a Sun Microsystems, Inc. business.
//	Permission to use, copy, modify, and distribute this software is freely
//	granted, provided that this notice is preserved.
func log1p(x float64) float64 {
	const (
		small   = 1.0 / (1 << 29)
		tiny    = 1.0 / (1 << 54)
		ln2High = 0x1.62e42feep-1
		ln2Low  = 0x1.a39ef35793c76p-33
	)
	switch {
	case x < tiny:
		return x
	case x < small:
		return x - float64(float64(x*x)*0.5)
	case x < math.Sqrt2-1:
		return logOf(x, 0, 0)
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
	fraction, k := math.Frexp(u)
	fraction, k = float64(2*fraction), k-1 // In [1, 2).
	if fraction >= math.Sqrt2 {
		fraction, k = fraction/2, k+1
	}
	n := float64(k)
	return logOf(fraction-1, float64(n*ln2High), float64(n*ln2Low)+lost)
}

// logOf is high + log(1 + f) + low for f in [√½ − 1, √2 − 1].
func logOf(f, high, low float64) float64 {
	const (
		c1 = 0x1.5555555555593p-1
		c2 = 0x1.999999997fa04p-2
		c3 = 0x1.2492494229359p-2
		c4 = 0x1.c71c51d8e78afp-3
		c5 = 0x1.7466496cb03dep-3
		c6 = 0x1.39a09d078c69fp-3
		c7 = 0x1.2f112df3e5244p-3
	)
	half := float64(float64(0.5*f) * f)
	s := f / (2 + f)
	z := float64(s * s)
	r := float64(z*c7) + c6
	r = float64(z*r) + c5
	r = float64(z*r) + c4
	r = float64(z*r) + c3
	r = float64(z*r) + c2
	r = float64(z*r) + c1
	r = float64(z * r)
	return high - ((half - (float64(s*(half+r)) + low)) - f)
}
