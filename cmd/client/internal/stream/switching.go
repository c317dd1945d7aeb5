package stream

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MaxCentres is the number of newest centres that the switching stream sums
	// over. The published data sums over all centres. The limit bounds the cost of
	// a round, and MaxCentres rounds after a change of bandwidth the whole sum has
	// the new one.
	MaxCentres      = 1000
	weightDeviation = 0.01 // standard deviation of the weights around 1
)

// interval is a run of rounds that share a bandwidth.
type interval struct {
	end      int // the last round, counted from 1
	variance float64
}

// intervals are the intervals of Dataset 2 in "Random Feature-based Online Multi-kernel
// Learning in Environments with Unknown Dynamics" (JMLR 2019), Table 1.
func intervals() []interval {
	return []interval{
		{200, 0.01},
		{1000, 1},
		{2000, 10},
		{2300, 0.01},
		{3000, 1},
		{3500, 10},
		{4300, 0.01},
		{5100, 1},
		{5900, 0.01},
		{6500, 0.1},
	}
}

// varianceAt returns the squared bandwidth of round t, counted from 0. After the last interval
// the table starts again.
func varianceAt(table []interval, t int) float64 {
	t = t%table[len(table)-1].end + 1
	return table[slices.IndexFunc(table, func(i interval) bool { return t <= i.end })].variance
}

// switching returns the data of Section 5.1 of the paper: standard Gaussian
// inputs and labels
//
//	y_t = sum_{s <= t} a_s k_s(x_t, x_s),  a_s = 1 + e_s,  e_s ~ N(0, 0.01^2),
//
// with a Gaussian kernel k_s whose bandwidth follows Table 1. The sum is over
// the newest MaxCentres rounds. As in the paper, every input column and the
// labels are then normalised to [0, 1] by their smallest and largest value over
// the stream. Therefore the whole stream is in memory: rounds * (d + 1) numbers.
func switching(rng *rand.Rand, rounds, dimension int) func(int) Round {
	table := intervals()
	inputs := make([][]float64, rounds)
	labels := make([]float64, rounds)
	weights := make([]float64, rounds)
	scales := make([]float64, rounds) // 1 / (2 sigma^2)
	for t := range rounds {
		x := make([]float64, dimension)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		inputs[t] = x
		weights[t] = 1 + weightDeviation*rng.NormFloat64()
		scales[t] = 1 / (2 * varianceAt(table, t))
		for s := max(0, t-MaxCentres+1); s <= t; s++ {
			labels[t] += weights[s] * math.Exp(-scales[s]*squaredDistance(x, inputs[s]))
		}
	}
	normalise(inputs, labels)
	return func(t int) Round { return Given(inputs[t], labels[t]) }
}

// normalise maps every column of inputs, and labels, onto [0, 1]. A constant
// becomes 0.
func normalise(inputs [][]float64, labels []float64) {
	if len(inputs) == 0 {
		return
	}
	rescale(len(labels), func(t int) *float64 { return &labels[t] })
	for i := range inputs[0] {
		rescale(len(inputs), func(t int) *float64 { return &inputs[t][i] })
	}
}

// rescale maps the n numbers onto [0, 1].
func rescale(n int, number func(int) *float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for t := range n {
		low, high = min(low, *number(t)), max(high, *number(t))
	}
	for t := range n {
		if v := number(t); high > low {
			*v = (*v - low) / (high - low)
		} else {
			*v = 0
		}
	}
}
