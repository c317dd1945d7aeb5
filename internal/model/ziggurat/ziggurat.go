// Package ziggurat draws from the normal and the exponential distribution, with the same
// bits on every target.
//
// What it draws is what math/rand/v2 draws from the same source on amd64, of which the
// logarithms have other last bits on other processors, and the sums where a compiler fuses
// them. Random features are drawn again from their seed whenever a model is loaded: what
// is drawn here never changes.
//
// Source: Marsaglia and Tsang, The Ziggurat Method for Generating Random Variables
// (Journal of Statistical Software 5(8), 2000), whose tables these are.
package ziggurat

import (
	"math"
	"math/rand/v2"
	"sync"

	"hindsight/internal/model/exponential"
)

const (
	// The tails begin at these; every strip has this area.
	normalTail, normalArea           = 3.442619855899, 9.91256303526217e-3
	exponentialTail, exponentialArea = 7.69711747013104972, 3.949659822581572e-3
	// How many strips there are, the tail's among them, and how many values a uniform
	// number takes in a strip.
	normalStrips, normalScale           = 128, 1 << 31
	exponentialStrips, exponentialScale = 256, 1 << 32
)

// strip is one of the strips of equal area that cover a density. Strip 0 has the tail.
type strip struct {
	// Below within a uniform number, times width, is under the density for sure.
	within uint32
	// width is the width of the strip over a uniform number, height the density at its right end.
	width, height float32
}

// tables has the strips of both distributions.
type tables struct {
	normal      [normalStrips]strip
	exponential [exponentialStrips]strip
}

// filled costs some 700 exponentials and logarithms once, because a model draws its features again at each load.
var filled = sync.OnceValue(func() *tables { //nolint:gochecknoglobals // Tables that nobody writes.
	z := &tables{}
	fill(z.normal[:], normalTail, normalArea, normalScale, normalDensity,
		func(f float64) float64 { return math.Sqrt(-2 * exponential.Log(f)) })
	fill(z.exponential[:], exponentialTail, exponentialArea, exponentialScale, exponentialDensity,
		func(f float64) float64 { return -exponential.Log(f) })
	return z
})

// Rand is a generator with the tables of both distributions.
type Rand struct {
	*rand.Rand
	*tables
}

// New draws from a generator.
func New(r *rand.Rand) *Rand { return &Rand{r, filled()} }

func normalDensity(x float64) float64 { return exponential.Of(-0.5 * float64(x*x)) }

func exponentialDensity(x float64) float64 { return exponential.Of(-x) }

// fill computes the strips from the tail inwards, given a density of 1 at 0 and its inverse.
func fill(strips []strip, tail, area, scale float64, density, inverse func(float64) float64) {
	last := len(strips) - 1
	base := area / density(tail) // The width of a rectangle with the area of strip 0.
	strips[0] = strip{within: uint32(tail / base * scale), width: float32(base / scale), height: 1}
	strips[last] = strip{width: float32(tail / scale), height: float32(density(tail))}
	right := tail
	for i := last - 1; i >= 1; i-- {
		x := inverse(area/right + density(right))
		strips[i+1].within = uint32(x / right * scale)
		strips[i].width, strips[i].height = float32(x/scale), float32(density(x))
		right = x
	}
}

// under reports whether a point of strip i > 0, at a uniform height, is under the density,
// of which the value at the point is given.
func (z *Rand) under(strips []strip, i uint64, density float64) bool {
	low, high := strips[i].height, strips[i-1].height
	return low+float32(float32(z.Float64())*(high-low)) < float32(density)
}

// Normal draws from the standard normal distribution, as rand.Rand.NormFloat64 does.
func (z *Rand) Normal() float64 {
	for {
		u := z.Uint64()
		j, i := int32(u), u>>32%normalStrips
		x := float64(j) * float64(z.normal[i].width)
		switch {
		case magnitude(j) < z.normal[i].within:
			return x
		case i > 0:
			if z.under(z.normal[:], i, normalDensity(x)) {
				return x
			}
		default:
			return math.Copysign(z.beyond(), float64(j))
		}
	}
}

// beyond draws from the normal distribution beyond normalTail.
//
// Source: Marsaglia, Generating a Variable from the Tail of the Normal Distribution
// (Technometrics 6, 1964).
func (z *Rand) beyond() float64 {
	for {
		x := float64(-exponential.Log(z.Float64()) * (1.0 / normalTail))
		y := -exponential.Log(z.Float64())
		if y+y >= float64(x*x) {
			return normalTail + x
		}
	}
}

// magnitude is |j|, also of the least number.
func magnitude(j int32) uint32 {
	if j < 0 {
		return uint32(-j)
	}
	return uint32(j)
}

// Exponential draws from the exponential distribution of mean 1, as rand.Rand.ExpFloat64 does.
func (z *Rand) Exponential() float64 {
	for {
		u := z.Uint64()
		j, i := uint32(u), u>>32%exponentialStrips
		x := float64(j) * float64(z.exponential[i].width)
		switch {
		case j < z.exponential[i].within:
			return x
		case i > 0:
			if z.under(z.exponential[:], i, exponentialDensity(x)) {
				return x
			}
		default:
			return exponentialTail - exponential.Log(z.Float64())
		}
	}
}
