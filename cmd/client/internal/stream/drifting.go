package stream

import (
	"io"
	"math"
	"math/rand/v2"
)

const (
	centres        = 40   // of a random function
	functionNorm   = 2    // RKHS norm of a random function, so |f| <= 2
	noiseDeviation = 0.1  // standard deviation of the noise of the labels
	driftPeriod    = 4000 // rounds of a full turn of the drifting target
	driftShare     = 0.3  // of the function that turns
)

// function is an element of the reproducing kernel Hilbert space of the
// Gaussian kernel, f(x) = sum_j a_j exp(-|x - c_j|^2 / (2 s^2)).
type function struct {
	centres [][]float64
	weights []float64
	scale   float64 // 1 / (2 s^2)
}

// newFunction draws a function of norm functionNorm with standard Gaussian
// weights at uniform centres. The bandwidth s = sqrt(d/3) is the root mean
// square of the length of an input. So the function varies over the cube in
// every dimension.
func newFunction(rng *rand.Rand, dimension int) *function {
	f := &function{
		centres: make([][]float64, centres),
		weights: make([]float64, centres),
		scale:   1.5 / float64(dimension),
	}
	for j := range f.centres {
		f.centres[j] = uniform(rng, dimension)
		f.weights[j] = rng.NormFloat64()
	}
	// |f|^2 = sum_ij a_i a_j k(c_i, c_j) = sum_i a_i f(c_i).
	var square float64
	for i, c := range f.centres {
		square += f.weights[i] * f.at(c)
	}
	factor := functionNorm / math.Sqrt(square)
	for j := range f.weights {
		f.weights[j] *= factor
	}
	return f
}

func (f *function) at(x []float64) float64 {
	var sum float64
	for j, c := range f.centres {
		sum += f.weights[j] * math.Exp(-f.scale*squaredDistance(x, c))
	}
	return sum
}

// Drifting is a stream that a seed determines. It labels uniform inputs of [-1, 1]^d by a
// constant random function and one that turns,
//
//	f(x) + driftShare (cos(a) g(x) + sin(a) h(x)),
//
// and Gaussian noise, where f, g and h are random functions and the angle a makes a full turn
// in driftPeriod rounds. The best fixed function is near f. No fixed function can follow the
// part that turns. It is not safe for concurrent use.
type Drifting struct {
	rounds, done, dimension int
	rng                     *rand.Rand
	f, g, h                 *function
}

// NewDrifting returns a stream with a number of rounds and the dimension of its inputs, both
// positive.
func NewDrifting(rounds, dimension int, seed uint64) *Drifting {
	rng := rand.New(rand.NewPCG(seed, 0x68696e6473696768))
	return &Drifting{
		rounds: rounds, dimension: dimension, rng: rng,
		f: newFunction(rng, dimension), g: newFunction(rng, dimension), h: newFunction(rng, dimension),
	}
}

// Len returns the number of rounds of the whole stream.
func (d *Drifting) Len() int { return d.rounds }

// Next returns the next round, or io.EOF after the last.
func (d *Drifting) Next() (Round, error) {
	if d.done == d.rounds {
		return Round{}, io.EOF
	}
	x := uniform(d.rng, d.dimension)
	sin, cos := math.Sincos(2 * math.Pi * float64(d.done%driftPeriod) / driftPeriod)
	d.done++
	turning := cos*d.g.at(x) + sin*d.h.at(x)
	return Round{Features: x, Labels: []float64{d.f.at(x) + driftShare*turning + noiseDeviation*d.rng.NormFloat64()}}, nil
}

func uniform(rng *rand.Rand, dimension int) []float64 {
	x := make([]float64, dimension)
	for i := range x {
		x[i] = 2*rng.Float64() - 1
	}
	return x
}

func squaredDistance(x, y []float64) float64 {
	var sum float64
	for i, v := range x {
		d := v - y[i]
		sum += d * d
	}
	return sum
}
