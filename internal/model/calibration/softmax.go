package calibration

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

const (
	ridge         = 2    // a₀.
	minScore      = 0.01 // Of the logarithm of a score.
	maxScore      = 4    // In magnitude.
	minShare      = 1e-9
	maxTheta      = 50
	maxLogit      = 30   // Below the most probable class, so that no probability is 0.
	maxCurved     = 1e12 // Of the entries of A.
	maxParameters = 11   // Of a Softmax.
	// The start of θ is (startScore, startLinear, 0).
	startScore  = 2
	startLinear = 1
)

// Point are the features of a class, the first n of them for a Softmax of n parameters.
type Point [maxParameters]float64

// Softmax is P ∝ exp(θ·φ), learned by online Newton steps with a memory of 1/(1−decay) rounds.
type Softmax struct {
	n            int
	decay, ridge float64
	theta        Point
	a            [maxParameters]Point
}

// NewSoftmax starts at θ, of at most maxParameters, with a₀ = ridge. A decay of 1 forgets nothing.
func NewSoftmax(decay, ridge float64, theta []float64) Softmax {
	c := Softmax{n: len(theta), decay: decay, ridge: ridge}
	copy(c.theta[:], theta)
	for i := range c.n {
		c.a[i][i] = ridge
	}
	return c
}

func features(score, share float64) Point {
	return Point{
		max(-maxScore, min(maxScore, score)),
		exponential.Log(max(minScore, min(maxScore, score))),
		exponential.Log(max(share, minShare)),
	}
}

// Probabilities writes P > 0 of each class into dst, of sum 1 to rounding.
func (c *Softmax) Probabilities(dst []float64, classes []Point) {
	c.Logits(dst, classes)
	exponential.Exp(dst, dst)
	mix.Normalize(dst)
}

// Logits writes log P of each class up to a constant: the largest is 0.
func (c *Softmax) Logits(dst []float64, classes []Point) {
	largest := math.Inf(-1)
	for k := range classes {
		logit := 0.0
		for i, v := range classes[k][:c.n] {
			logit += float64(c.theta[i] * v)
		}
		dst[k] = logit
		largest = max(largest, logit)
	}
	for k := range dst {
		dst[k] = max(dst[k]-largest, -maxLogit)
	}
}

// Learn learns the class of a round, given its probabilities.
func (c *Softmax) Learn(probabilities []float64, classes []Point, truth int, weight float64) {
	var mean, step Point
	var second [maxParameters]Point
	for k, p := range probabilities {
		for i, v := range classes[k][:c.n] {
			part := float64(p * v)
			mean[i] += part
			for j := 0; j <= i; j++ {
				second[i][j] += float64(part * classes[k][j])
			}
		}
	}
	for i := range c.n {
		step[i] = float64(weight * (mean[i] - classes[truth][i]))
		for j := 0; j <= i; j++ {
			curvature := float64(weight * (second[i][j] - float64(mean[i]*mean[j])))
			c.a[i][j] = float64(c.decay*c.a[i][j]) + curvature
			if i == j {
				c.a[i][i] += float64((1 - c.decay) * c.ridge)
			}
			c.a[j][i] = c.a[i][j]
		}
	}
	c.solve(&step)
	for i, v := range step[:c.n] {
		c.theta[i] = math.Max(-maxTheta, math.Min(maxTheta, c.theta[i]-v))
	}
}

// solve overwrites b by A⁻¹b and returns the smallest pivot, at least a₀ to rounding as A ≥ a₀I.
func (c *Softmax) solve(b *Point) (pivot float64) {
	m := c.a
	pivot = math.Inf(1)
	for i := range c.n {
		pivot = math.Min(pivot, m[i][i])
		for r := i + 1; r < c.n; r++ {
			q := m[r][i] / m[i][i]
			for j := i; j < c.n; j++ {
				m[r][j] -= float64(q * m[i][j])
			}
			b[r] -= float64(q * b[i])
		}
	}
	for i := c.n - 1; i >= 0; i-- {
		for j := i + 1; j < c.n; j++ {
			b[i] -= float64(m[i][j] * b[j])
		}
		b[i] /= m[i][i]
	}
	return pivot
}

// Visit visits θ and the lower triangle of A, by rows.
func (c *Softmax) Visit(v *codec.Visitor) {
	v.FloatsWithin(maxTheta, c.theta[:c.n])
	for i := range c.n {
		v.FloatsWithin(maxCurved, c.a[i][:i+1])
	}
	if !v.Reading() {
		return
	}
	for i := range c.n {
		for j := range i {
			c.a[j][i] = c.a[i][j]
		}
	}
	var b Point
	if pivot := c.solve(&b); !(pivot >= c.ridge/2) {
		v.Corrupt("a curvature of %g", pivot)
	}
}
