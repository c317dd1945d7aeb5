package baselines

import (
	"fmt"
	"math"
	"strconv"
)

// Kernel is a positive definite kernel that depends on two inputs through their
// inner product and their squared distance.
type Kernel struct {
	// Name is the name in the AdaRaker paper.
	Name string
	// of is k(x,z) as a function of x·z and ‖x−z‖².
	of func(dot, square float64) float64
}

// Gaussian is exp(−‖x−z‖²/(2σ²)) with the given σ².
func Gaussian(variance float64) Kernel {
	return Kernel{
		Name: "RBF, σ² = " + strconv.FormatFloat(variance, 'g', -1, 64),
		of:   func(_, square float64) float64 { return math.Exp(-square / (2 * variance)) },
	}
}

// Polynomial is (x·z + 1)^degree.
func Polynomial(degree int) Kernel {
	return Kernel{
		Name: fmt.Sprintf("POLY%d", degree),
		of: func(dot, _ float64) float64 {
			v := 1.0
			for range degree {
				v *= dot + 1
			}
			return v
		},
	}
}

// Linear is x·z.
func Linear() Kernel {
	return Kernel{Name: "LINEAR", of: func(dot, _ float64) float64 { return dot }}
}

// Value is k(x, z).
func (k Kernel) Value(x, z []float64) float64 { return k.of(products(x, z)) }

// products returns x·z and ‖x−z‖².
func products(x, z []float64) (dot, square float64) {
	z = z[:len(x)]
	for i, v := range x {
		dot += v * z[i]
		square += (v - z[i]) * (v - z[i])
	}
	return dot, square
}

// Dictionary is the number of kernels that the methods with several kernels
// combine: the first ones of Kernels.
const Dictionary = 5

// The indices of Kernels.
const (
	rbf01 = iota
	rbf1
	rbf10
	poly2
	linear
	poly3
	kernels
)

// Kernels returns the kernels of the AdaRaker paper, section 5: those of the
// dictionary, and POLY3.
func Kernels() []Kernel {
	return []Kernel{
		rbf01: Gaussian(0.1), rbf1: Gaussian(1), rbf10: Gaussian(10),
		poly2: Polynomial(2), linear: Linear(), poly3: Polynomial(3),
	}
}

// Past holds the inputs so far, and the values of the kernels between them and the
// last input that Look was given. The zero value has no inputs.
type Past struct {
	inputs [][]float64
	norms  []float64 // ‖x_i‖²
	rows   [kernels][]float64
	mean   []float64
	self   [kernels]float64
	kinds  []Kernel
}

// Look computes k(x_i, x) for all inputs x_i so far and every kernel, with one
// exponential a pair:
//
//	exp(−s/0.2) = exp(−s/2)¹⁰,  exp(−s/2) = exp(−s/20)¹⁰,  s = ‖x‖² + ‖x_i‖² − 2x·x_i
//
// The relative error is at most some 100 times that of the exponential, plus
// ‖x‖²/σ² roundings from s. It costs t(d + 20) multiplications and t exponentials.
// Afterwards x is one of the inputs; it is kept, not copied.
func (p *Past) Look(x []float64) {
	if p.kinds == nil {
		p.kinds = Kernels()
	}
	t := len(p.inputs)
	for k := range p.rows {
		p.rows[k] = sized(p.rows[k], t)
	}
	p.mean = sized(p.mean, t)
	norm := inner(x, x)
	p.fill(x, norm)
	for k, kernel := range p.kinds {
		p.self[k] = kernel.of(norm, 0)
	}
	p.inputs, p.norms = append(p.inputs, x), append(p.norms, norm)
}

// fill computes the rows.
func (p *Past) fill(x []float64, norm float64) {
	t := len(p.inputs)
	narrow, middle, wide := p.rows[rbf01][:t], p.rows[rbf1][:t], p.rows[rbf10][:t]
	second, third, first := p.rows[poly2][:t], p.rows[poly3][:t], p.rows[linear][:t]
	mean, norms := p.mean[:t], p.norms[:t]
	for i, z := range p.inputs {
		dot := inner(x, z)
		plus := dot + 1
		square := plus * plus
		e10 := math.Exp(-max(0, norm+norms[i]-2*dot) / 20)
		e1 := tenth(e10)
		e01 := tenth(e1)
		narrow[i], middle[i], wide[i] = e01, e1, e10
		first[i], second[i], third[i] = dot, square, square*plus
		mean[i] = (e01 + e1 + e10 + square + dot) * (1.0 / Dictionary)
	}
}

// Row returns k(x_i, x) for all inputs before the last, by the index of Kernels.
// It is valid until the next Look.
func (p *Past) Row(kernel int) []float64 { return p.rows[kernel] }

// Mean returns the means of the rows of the dictionary: the row of the kernel of
// AvgMKL. It is valid until the next Look.
func (p *Past) Mean() []float64 { return p.mean }

// Self returns k(x, x) of the last input.
func (p *Past) Self(kernel int) float64 { return p.self[kernel] }

// average is k(x, x) of the last input for the kernel of AvgMKL.
func (p *Past) average() (mean float64) {
	for _, v := range p.self[:Dictionary] {
		mean += v / Dictionary
	}
	return mean
}

// inner is x·z, with four sums so that no addition waits for the one before.
func inner(x, z []float64) float64 {
	var a, b, c, d float64
	z = z[:len(x)]
	i := 0
	for ; i+3 < len(x); i += 4 {
		a += x[i] * z[i]
		b += x[i+1] * z[i+1]
		c += x[i+2] * z[i+2]
		d += x[i+3] * z[i+3]
	}
	for ; i < len(x); i++ {
		a += x[i] * z[i]
	}
	return (a + b) + (c + d)
}

// tenth is the tenth power.
func tenth(v float64) float64 {
	square := v * v
	fourth := square * square
	return fourth * fourth * square
}

// sized returns a slice of n numbers of any value.
func sized(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+n/2+64)
	}
	return s[:n]
}
