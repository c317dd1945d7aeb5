package calibration

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/mix"
)

const (
	ridge      = 2    // a₀.
	minScore   = 0.01 // Of the logarithm of a score.
	maxScore   = 4    // In magnitude.
	minShare   = 1e-9
	maxTheta   = 50
	maxLogit   = 30   // Below the most probable class, so that no probability is 0.
	maxCurved  = 1e12 // Of the entries of A.
	minPivot   = ridge / 2.0
	parameters = 3
	// The start of θ is (startScore, startLinear, 0).
	startScore  = 2
	startLinear = 1
)

type point [parameters]float64

// softmax is P ∝ exp(θ·φ), learned with a memory of 1/(1−decay) rounds.
type softmax struct {
	decay float64
	theta point
	// a holds A by rows.
	a [parameters]point
}

func newSoftmax(decay float64) softmax {
	c := softmax{decay: decay, theta: point{startScore, startLinear, 0}}
	for i := range c.a {
		c.a[i][i] = ridge
	}
	return c
}

func features(score, share float64) point {
	return point{
		math.Max(-maxScore, math.Min(maxScore, score)),
		exponential.Log(math.Max(minScore, math.Min(maxScore, score))),
		exponential.Log(math.Max(share, minShare)),
	}
}

// probabilities writes P > 0 of each class into dst, of sum 1 to rounding.
func (c *softmax) probabilities(dst []float64, classes []point) {
	largest := math.Inf(-1)
	for k := range classes {
		logit := 0.0
		for i, v := range classes[k] {
			logit += float64(c.theta[i] * v)
		}
		dst[k] = logit
		largest = math.Max(largest, logit)
	}
	for k := range dst {
		dst[k] = math.Max(dst[k]-largest, -maxLogit)
	}
	exponential.Exp(dst, dst)
	mix.Normalize(dst)
}

func (c *softmax) learn(probabilities []float64, classes []point, truth int, weight float64) {
	var mean, step point
	var second [parameters]point
	for k, p := range probabilities {
		for i, v := range classes[k] {
			part := float64(p * v)
			mean[i] += part
			for j := 0; j <= i; j++ {
				second[i][j] += float64(part * classes[k][j])
			}
		}
	}
	for i := range c.a {
		step[i] = float64(weight * (mean[i] - classes[truth][i]))
		for j := 0; j <= i; j++ {
			curvature := float64(weight * (second[i][j] - float64(mean[i]*mean[j])))
			c.a[i][j] = float64(c.decay*c.a[i][j]) + curvature
			if i == j {
				c.a[i][i] += float64((1 - c.decay) * ridge)
			}
			c.a[j][i] = c.a[i][j]
		}
	}
	c.solve(&step)
	for i, v := range step {
		c.theta[i] = math.Max(-maxTheta, math.Min(maxTheta, c.theta[i]-v))
	}
}

// solve overwrites b by A⁻¹b and returns the least pivot of the elimination: at least a₀ to
// rounding, because A ≥ a₀I.
func (c *softmax) solve(b *point) (pivot float64) {
	m := c.a
	pivot = math.Inf(1)
	for i := range m {
		pivot = math.Min(pivot, m[i][i])
		for r := i + 1; r < parameters; r++ {
			q := m[r][i] / m[i][i]
			for j := i; j < parameters; j++ {
				m[r][j] -= float64(q * m[i][j])
			}
			b[r] -= float64(q * b[i])
		}
	}
	for i := parameters - 1; i >= 0; i-- {
		for j := i + 1; j < parameters; j++ {
			b[i] -= float64(m[i][j] * b[j])
		}
		b[i] /= m[i][i]
	}
	return pivot
}

func (c *softmax) visit(v *codec.Visitor) {
	v.FloatsWithin(maxTheta, c.theta[:])
	for i := range c.a {
		v.FloatsWithin(maxCurved, c.a[i][:i+1])
	}
	if !v.Reading() {
		return
	}
	for i := range c.a {
		for j := range i {
			c.a[j][i] = c.a[i][j]
		}
	}
	var b point
	if pivot := c.solve(&b); !(pivot >= minPivot) {
		v.Corrupt("a curvature of %g", pivot)
	}
}
