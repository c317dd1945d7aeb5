// Package moments keeps means and sums of squared deviations of numbers that come one by one.
// The numbers have a magnitude of at most model.MaxMagnitude. How many they are is for the
// caller to count: one count serves all columns of a table.
package moments

import (
	"math"

	"hindsight/internal/model/compensated"
)

// Rounding is the largest relative deviation that rounding alone may cause.
const Rounding = 1e-14

// Exact are the mean of numbers and Σω(x − mean)². The mean is compensated: what a number
// changes of it, a deviation over Σω, may be far below its last digit. Both are exact to
// their own rounding, however far from 0 the numbers are and however many there were.
//
// Source: Welford, Technometrics 4 (1962); West, Communications of the ACM 22 (1979).
type Exact struct {
	Mean    compensated.Sum
	Squares float64
}

// Add takes a number that counts ω, given Σω with the number.
func (m *Exact) Add(x, counts, total float64) {
	off := (x - m.Mean.High) - m.Mean.Low
	m.Mean.Add(float64(off*counts) / total)
	m.Squares += float64(float64(off*off) * float64(counts*((total-counts)/total)))
}

// Deviation is the root of the mean squared deviation of numbers that count total, 0 of none.
func (m *Exact) Deviation(total float64) float64 {
	if total == 0 {
		return 0
	}
	return math.Sqrt(m.Squares / total)
}

// Running are the mean of numbers and Σω(x − mean)², to the rounding of every step.
type Running struct{ Mean, Squares float64 }

// Add takes a number that counts ω, given Σω with the number.
//
// Source: Welford, Technometrics 4 (1962); West, Communications of the ACM 22 (1979).
func (m *Running) Add(x, counts, total float64) {
	before := x - m.Mean
	m.Mean += float64(counts*before) / total
	m.Squares += float64(float64(counts*before) * (x - m.Mean))
}

// AddWeighted takes a number of weight ω, given the sum of the weights before.
//
// Source: West, Communications of the ACM 22 (1979).
func (m *Running) AddWeighted(x, weight, before float64) {
	after := before + weight
	off := x - m.Mean
	m.Squares += float64(float64(weight*off) * off * (before / after))
	m.Mean += float64(off * (weight / after))
}
