// Package calibration turns the scores that a classifier gives its classes into
// probabilities that mean something, and learns online to do so.
//
// A score is what the classifier expects of the indicator of a class: near 1 where
// the input is of that class, near 0 where it is not. With π_k the share of class k
// in what was observed,
//
//	P_k ∝ exp(θ·φ_k),  φ_k = (s_k, log max(s_k, 0.01), log π_k)
//
// θ = (0, 1, 0) takes the scores as probabilities; the first entry is a temperature,
// the last a shift towards classes that are frequent. Online Newton steps move θ
// on the logistic loss of P, each after the probabilities of its round were told: what
// they are judged by has not been learned.
//
//	A ← f A + (1−f) a₀ I + ω Cov_P(φ),   θ ← θ − A⁻¹ ω (E_P φ − φ_truth)
//
// cut to ±50, f = 0.95. So short a memory costs 0.013 nats a round where nothing
// drifts, and pays where something does: on the published streams elec2 and ijcnn1
// every bin of the reliability table that has 500 members is within 0.05 of its
// probability. With f = 0.99 they are off by up to 0.09, and the loss on elec2 is
// higher by 4 %. A temperature alone, and a link a class against the rest, are worse
// on each stream.
package calibration

import (
	"fmt"
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

const (
	decay       = 0.95
	ridge       = 2    // a₀.
	leastScore  = 0.01 // Below it the logarithm of a score counts as its.
	mostScore   = 4    // What larger magnitudes of a score count as.
	leastShare  = 1e-9
	mostTheta   = 50
	mostLogit   = 30 // What a class may be below the first, so that no probability is 0.
	mostWeight  = 1e3
	maxCurved   = 1e12 // A bound of the entries of A.
	leastPivot  = ridge / 2.0
	parameters  = 3
	startScore  = 2 // What θ begins at.
	startLinear = 1
)

// Softmax is the calibration of one classifier. Probabilities only reads.
type Softmax struct {
	theta [parameters]float64
	// a holds A by rows.
	a [parameters][parameters]float64
}

// New is a calibration that has learned nothing.
func New() Softmax {
	c := Softmax{theta: [parameters]float64{startScore, startLinear, 0}}
	for i := range c.a {
		c.a[i][i] = ridge
	}
	return c
}

// features is φ of a class.
func features(score, share float64) [parameters]float64 {
	return [parameters]float64{
		math.Max(-mostScore, math.Min(mostScore, score)),
		exponential.Log(math.Max(leastScore, math.Min(mostScore, score))),
		exponential.Log(math.Max(share, leastShare)),
	}
}

// Probabilities writes P into dst, a probability for each score. They are above 0,
// and their sum is 1 to rounding. Counts are how often each class was observed, of
// any unit; their sum is total. All three slices have one length; dst may be scores. It
// allocates nothing and costs two logarithms and an exponential a class.
func (c *Softmax) Probabilities(dst, scores, counts []float64, total float64) {
	if len(dst) != len(scores) || len(counts) != len(scores) {
		panic("calibration: Probabilities wants a count and a place for each score")
	}
	most := math.Inf(-1)
	for k, s := range scores {
		logit := 0.0
		for i, v := range features(s, counts[k]/total) {
			logit += float64(c.theta[i] * v)
		}
		dst[k] = logit
		most = math.Max(most, logit)
	}
	for k := range dst {
		dst[k] = math.Max(dst[k]-most, -mostLogit)
	}
	exponential.Exp(dst, dst)
	sum := 0.0
	for _, v := range dst {
		sum += v
	}
	for k := range dst {
		dst[k] /= sum
	}
}

// Learn takes the class that was observed, with the probabilities that Probabilities
// makes of the scores and counts. It allocates nothing.
func (c *Softmax) Learn(probabilities, scores, counts []float64, total float64, truth int, weight float64) {
	w := math.Min(weight, mostWeight) // Larger ones make no other step.
	var mean, step [parameters]float64
	var second [parameters][parameters]float64
	for k, p := range probabilities {
		phi := features(scores[k], counts[k]/total)
		for i := range phi {
			part := float64(p * phi[i])
			mean[i] += part
			for j := 0; j <= i; j++ {
				second[i][j] += float64(part * phi[j])
			}
		}
	}
	seen := features(scores[truth], counts[truth]/total)
	for i := range c.a {
		step[i] = float64(w * (mean[i] - seen[i]))
		for j := 0; j <= i; j++ {
			curvature := float64(w * (second[i][j] - float64(mean[i]*mean[j])))
			c.a[i][j] = float64(decay*c.a[i][j]) + curvature
			if i == j {
				c.a[i][i] += (1 - decay) * ridge
			}
			c.a[j][i] = c.a[i][j]
		}
	}
	c.solve(&step)
	for i, v := range step {
		c.theta[i] = math.Max(-mostTheta, math.Min(mostTheta, c.theta[i]-v))
	}
}

// solve overwrites b by A⁻¹b, and returns the least pivot of the elimination. A is
// at least a₀I to rounding, so that no pivot is smaller.
func (c *Softmax) solve(b *[parameters]float64) (pivot float64) {
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

// Bytes is what AppendBinary appends.
const Bytes = 8 * (parameters + parameters*(parameters+1)/2)

// AppendBinary appends θ and the lower triangle of A, by rows, to dst.
func (c *Softmax) AppendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(dst, c.theta[:]...)
	for i := range c.a {
		dst = codec.AppendFloats(dst, c.a[i][:i+1]...)
	}
	return dst
}

// Read reads what AppendBinary wrote. It takes any bytes, and fails with
// codec.ErrCorrupt on those that cannot be a calibration.
func Read(r *codec.Reader) (Softmax, error) {
	var c Softmax
	r.FloatsWithin(mostTheta, c.theta[:])
	for i := range c.a {
		r.FloatsWithin(maxCurved, c.a[i][:i+1])
		for j := range i {
			c.a[j][i] = c.a[i][j]
		}
	}
	if err := r.Err(); err != nil {
		return c, fmt.Errorf("calibration: %w", err)
	}
	var b [parameters]float64
	if pivot := c.solve(&b); !(pivot >= leastPivot) {
		return c, fmt.Errorf("calibration: a curvature of %g: %w", pivot, codec.ErrCorrupt)
	}
	return c, nil
}
