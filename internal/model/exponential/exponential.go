// Package exponential computes e^x of many numbers at a time, and logarithms of one.
//
// The error is below one unit in the last place (at most 0.88 measured) for a normal
// result, and at most one unit for a subnormal one. The assembly for AVX2 does the same
// operations on the same numbers as the Go, four at a time, with the same bits. Every product
// that is added is written float64(x*y), so that no compiler fuses the two: all targets
// have the same bits. The tag purego builds without the assembly.
//
// The reduction and the polynomial come from fdlibm:
//
//	Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//	Developed at SunPro, a Sun Microsystems, Inc. business.
//	Permission to use, copy, modify, and distribute this software is freely
//	granted, provided that this notice is preserved.
package exponential

import "math"

const (
	// Below minExponent the result is 0, above maxExponent it is infinite.
	minExponent, maxExponent = -746, 710

	log2e = 1 / math.Ln2
	// What is added to 1.5·2^52 is rounded to an integer, whose last bits are then
	// the last bits of the sum.
	magic = 3 << 51
	// The parts add up to log 2. The first has 32 bits.
	part1 = 0x1.62e42feep-01
	part2 = 0x1.a39ef35793c76p-33

	// On [−log 2/2, log 2/2], to 2^-59:
	//
	//	r (e^r+1)/(e^r−1) = 2 + p1 r² + p2 r⁴ + …
	p1 = 0x1.555555555553ep-03
	p2 = -0x1.6c16c16bebd93p-09
	p3 = 0x1.1566aaf25de2cp-14
	p4 = -0x1.bbd41c5d26bf1p-20
	p5 = 0x1.6376972bea4d0p-25
)

func expGo(dst, x []float64) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = Of(v)
	}
}

// Of is e^x = 2^n e^r with x = n log 2 + r, with the bits of Exp. It costs some 15 ns.
func Of(x float64) float64 {
	if x < minExponent { // NaN stays.
		x = minExponent
	}
	if x > maxExponent {
		x = maxExponent
	}
	n := float64(x*log2e) + magic - magic
	high, low := x-float64(n*part1), float64(n*part2)
	r := high - low
	t := float64(r * r)
	p := float64(t*p5) + p4
	p = float64(t*p) + p3
	p = float64(t*p) + p2
	p = float64(t*p) + p1
	c := r - float64(t*p)
	y := 1 - ((low - float64(r*c)/(2-c)) - high)
	// 2^n in two factors: one may be no normal number.
	half := float64(n*0.5) + magic
	rest := n - (half - magic) + magic
	return y * power(half) * power(rest)
}

// power is 2^n, given 1.5·2^52 + n.
func power(n float64) float64 { return math.Float64frombits((math.Float64bits(n) + 1023) << 52) }
