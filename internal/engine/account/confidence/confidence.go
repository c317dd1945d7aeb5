// Package confidence compares the mean losses of two models by an asymptotic confidence sequence: intervals
// that hold the difference of the means at all times at once, so that one may look after each observation
// and stop at any of them.
//
// For n independent values with the empirical variance s², the mean is within
//
//	r(n) = s √(2(nρ² + 1)/(n²ρ²) log(√(nρ² + 1)/α))
//
// of its estimate for all n, with a probability that tends to 1 − α as the first look is later. A mixture
// of Gaussian martingales has this width; ρ decides where the width is smallest.
//
// Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic
// confidence sequences (2024), theorem 2.2 and section 3.
package confidence

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

const (
	// Level is 1 − α.
	Level = 0.95
	alpha = 1 - Level
	// Below minCount values of a mean no interval is given: the sequence is asymptotic.
	minCount = 100
	// Below an effective number of minWeighty values other than 0 neither: with few errors of a classifier
	// the variance is not known.
	minWeighty = 20
	// The number of values at which the sequence exceeds a single interval by the smallest factor.
	tightest = 1000
)

// Moments sum values up.
type Moments struct {
	// Count is a whole number. Absolute is the sum of the magnitudes.
	Count, Sum, Squares, Absolute float64
}

// Add adds a value. Sums that exceed all numbers stay at the largest number.
func (m *Moments) Add(x float64) {
	m.Count++
	m.Sum += x
	m.Squares = math.Min(m.Squares+float64(x*x), math.MaxFloat64)
	m.Absolute += math.Abs(x)
}

// Visit visits the sums. Reading accepts magnitudes of at most limit.
func (m *Moments) Visit(v *codec.Visitor, limit float64) {
	v.Within(limit, &m.Count, &m.Sum, &m.Squares, &m.Absolute)
}

// Mean returns the mean, NaN without values.
func (m *Moments) Mean() float64 { return m.Sum / m.Count }

func (m *Moments) variance() float64 {
	mean := m.Mean()
	return math.Max(0, m.Squares/m.Count-float64(mean*mean))
}

// known reports whether the values are enough for an interval. (Σ|x|)²/Σx² counts the values other than 0, if
// these are alike.
func (m *Moments) known() bool {
	return m.Count >= minCount && m.Absolute/m.Squares*m.Absolute >= minWeighty
}

// Interval is a difference of means, and the bounds of the confidence sequence at this time.
type Interval struct{ Mean, Lower, Upper float64 }

// Paired returns the interval of the mean of differences. The result ok is false while the differences are too
// few, and if all are equal.
func Paired(differences Moments) (i Interval, ok bool) {
	return around(differences.Mean(), differences.variance(), differences.Count, differences.known())
}

func around(mean, variance, n float64, known bool) (Interval, bool) {
	if !(known && variance > 0 && variance <= math.MaxFloat64) {
		return Interval{}, false
	}
	log := -2 * exponential.Log(alpha)
	t := n * (log + exponential.Log(log+1)) / tightest // nρ²
	radius := math.Sqrt(variance * 2 * (t + 1) / (n * t) * exponential.Log(math.Sqrt(t+1)/alpha))
	return Interval{mean, mean - radius, mean + radius}, true
}
