// Package trig computes sines and cosines of many angles at a time.
//
// The error of a result is below one unit in its last place (at most 0.77 in the tests), for
// every finite angle: the reduction by π/2 is as exact for 1e300, or for the double nearest
// to a multiple of π, as for 1. The assembly for AVX2 and NEON does the same operations on the
// same numbers as the Go, four or two at a time, with the same bits. Every product that is
// added is written float64(x*y), so that no compiler fuses the two: all targets have the same
// bits. The tag purego builds without the assembly.
//
// Reduction of ordinary angles by a π/2 in four parts: Cody and Waite, Software
// Manual for the Elementary Functions (1980). Of others: Payne and Hanek, Radian
// Reduction for Trigonometric Functions (SIGNUM 1983). The polynomials, the parts
// of π/2 and the order of their sums come from fdlibm:
//
//	Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//	Developed at SunPro, a Sun Microsystems, Inc. business.
//	Permission to use, copy, modify, and distribute this software is freely
//	granted, provided that this notice is preserved.
package trig

import (
	"math"
	"math/bits"
)

const (
	// Angles below 2^20 π/2 are ordinary: the multiple of π/2 next to one has at most
	// 20 bits, and its products with a part of π/2 of 33 bits are exact.
	ordinary = 1647099

	twoOverPi = 2 / math.Pi
	// What is added to 1.5·2^52 is rounded to an integer, whose last bits are then
	// the last bits of the sum.
	magic = 3 << 51
	// The parts add up to π/2. The first three have 33 bits each.
	part1 = 0x1.921fb544p+00
	part2 = 0x1.0b4611a6p-34
	part3 = 0x1.3198a2ep-69
	part4 = 0x1.b839a252049c1p-104

	// On [−π/4, π/4], to 2^-58:
	//
	//	sin r = r + r³(s1 + r²s2 + …),  cos r = 1 − r²/2 + r⁴(c1 + r²c2 + …)
	s1 = -0x1.5555555555549p-03
	s2 = 0x1.111111110f8a6p-07
	s3 = -0x1.a01a019c161d5p-13
	s4 = 0x1.71de357b1fe7dp-19
	s5 = -0x1.ae5e68a2b9cebp-26
	s6 = 0x1.5d93a5acfd57cp-33
	c1 = 0x1.555555555554cp-05
	c2 = -0x1.6c16c16c15177p-10
	c3 = 0x1.a01a019cb159p-16
	c4 = -0x1.27e4f809c52adp-22
	c5 = 0x1.1ee9ebdb4b1c4p-29
	c6 = -0x1.8fae9be8838d4p-37

	signBit = 1 << 63
)

func sincosGo(sines, cosines, angles []float64) {
	sines, cosines = sines[:len(angles)], cosines[:len(angles)]
	for i, x := range angles {
		sines[i], cosines[i] = one(x)
	}
}

func one(x float64) (sine, cosine float64) {
	if !(math.Abs(x) < ordinary) {
		return wide(x)
	}
	rounded := float64(x*twoOverPi) + magic
	n := rounded - magic
	// a is exact, and so are the products. The errors of the next two differences
	// are kept: x may be so near to a multiple of π/2 that nearly all of it cancels.
	a := x - float64(n*part1)
	b := float64(n * part2)
	h := a - b
	v := h - a
	low := (a - (h - v)) - (b + v)
	b = float64(n * part3)
	r := h - b
	v = r - h
	low += (h - (r - v)) - (b + v)
	low -= float64(n * part4)
	return place(math.Float64bits(rounded), r, low)
}

// wide is the sine and the cosine of an angle that is not ordinary.
func wide(x float64) (sine, cosine float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.NaN(), math.NaN()
	}
	quadrant, r, low := reduce(math.Abs(x))
	sine, cosine = place(quadrant, r, low)
	return math.Copysign(1, x) * sine, cosine
}

// place is the sine and the cosine of q π/2 + r + low, of which the last two
// bits of q matter, for r in [−π/4, π/4] with low far smaller than it.
func place(q uint64, r, low float64) (sine, cosine float64) {
	z := float64(r * r)
	p := float64(z*s6) + s5
	p = float64(z*p) + s4
	p = float64(z*p) + s3
	p = float64(z*p) + s2
	v := float64(z * r)
	s := r - ((float64(z*(float64(0.5*low)-float64(v*p))) - low) - float64(v*s1))
	p = float64(z*c6) + c5
	p = float64(z*p) + c4
	p = float64(z*p) + c3
	p = float64(z*p) + c2
	p = float64(z*p) + c1
	p = float64(z * p)
	half := float64(0.5 * z)
	w := 1 - half
	c := w + (((1 - w) - half) + (float64(z*p) - float64(r*low)))
	// The sine has the sign of r, but of −0 the sum above is +0.
	sBits, cBits := math.Float64bits(s)|math.Float64bits(r)&signBit, math.Float64bits(c)
	if q&1 != 0 {
		sBits, cBits = cBits, sBits
	}
	return math.Float64frombits(sBits ^ q<<62&signBit), math.Float64frombits(cBits ^ (q+1)<<62&signBit)
}

// reduce is x = quadrant π/2 + r + low, modulo 2π, for a finite x ≥ ordinary. It
// works on integers: x = m 2^e has 53 bits, and of the bits of 2/π those are left
// out that make multiples of 4 of it, and those behind the next 192. 62 bits of
// the fraction may be 0, by the worst of all doubles; 75 are then left.
func reduce(x float64) (quadrant uint64, r, low float64) {
	// 2/π, behind a word of zeros.
	digits := [...]uint64{
		0,
		0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
		0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
		0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
		0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
	}
	const mantissa = 52
	m := math.Float64bits(x)&(1<<mantissa-1) | 1<<mantissa
	from := int(math.Float64bits(x)>>mantissa) - 1075 + 62 // e + 62.
	word, shift := from/64, from%64
	take := func(i int) uint64 {
		return digits[word+i]<<shift | digits[word+i+1]>>(64-shift) // A shift by 64 gives 0.
	}
	// p is m times the window, modulo 2^192: two bits of quadrant, then fraction.
	p1, p0 := bits.Mul64(m, take(2))
	high, middle := bits.Mul64(m, take(1))
	p1, carry := bits.Add64(p1, middle, 0)
	p2 := m*take(0) + high + carry
	quadrant = p2 >> 62
	p2, p1, p0 = p2<<2|p1>>62, p1<<2|p0>>62, p0<<2
	negative := p2 >= signBit
	if negative { // Above one half: it is the next quadrant's.
		quadrant++
		p0, carry = bits.Sub64(0, p0, 0)
		p1, carry = bits.Sub64(0, p1, carry)
		p2, _ = bits.Sub64(0, p2, carry)
	}
	exponent := 0
	if p2 == 0 {
		p2, p1, p0, exponent = p1, p0, 0, 64
	}
	zeros := bits.LeadingZeros64(p2)
	exponent += zeros
	p2, p1 = p2<<zeros|p1>>(64-zeros), p1<<zeros|p0>>(64-zeros)
	// The fraction is p 2^-(128+exponent); times π/2, of which these are 128 bits.
	p2, p1 = product(p2, p1, 0xc90fdaa22168c234, 0xc4c6628b80dc1cd1)
	if zeros = bits.LeadingZeros64(p2); zeros > 0 {
		exponent += zeros
		p2, p1 = p2<<zeros|p1>>(64-zeros), p1<<zeros
	}
	r = math.Ldexp(float64(p2>>11), -52-exponent)
	low = math.Ldexp(float64((p2<<53|p1>>11)>>11), -105-exponent)
	if negative {
		r, low = -r, -low
	}
	return quadrant, r, low
}

// product is the upper half of a product of 128-bit numbers, less at most 3 in
// the last place.
func product(a1, a0, b1, b0 uint64) (high, low uint64) {
	high, low = bits.Mul64(a1, b1)
	x, _ := bits.Mul64(a1, b0)
	y, _ := bits.Mul64(a0, b1)
	low, carry := bits.Add64(low, x, 0)
	high += carry
	low, carry = bits.Add64(low, y, 0)
	return high + carry, low
}
