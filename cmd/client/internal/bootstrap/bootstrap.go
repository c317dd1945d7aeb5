// Package bootstrap says how certain the mean of a series is whose values depend on their
// predecessors, such as the differences of the losses of two models on the same rows.
package bootstrap

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// Level is the confidence of an interval.
	Level = 0.95
	// Resamples is how many series a bootstrap draws.
	Resamples = 1000
	// Least is the length of the shortest series that has an interval.
	Least = 30
)

// Interval is a confidence interval of a mean.
type Interval struct {
	Mean, Low, High float64
	Block           float64 // The mean length of the blocks.
}

// Mean returns the mean of a series and its interval at Level by the stationary bootstrap
// (Politis and Romano 1994). A resample joins blocks of the series. Their starts are uniform and
// their lengths geometric; behind its end the series goes on at its beginning. The interval is
// Mean ± q, q the quantile at Level of |mean of a resample - Mean|. The series has at least Least
// values. The cost is O(n^1.5 + Resamples n / Block).
func Mean(series []float64, seed uint64) Interval {
	n := len(series)
	sums := make([]float64, n+1) // sums[i] is the sum of the first i centred values.
	var mean float64
	for i, v := range series {
		mean += (v - mean) / float64(i+1)
	}
	for i, v := range series {
		sums[i+1] = sums[i] + (v - mean)
	}
	out := Interval{Mean: mean, Block: blockLength(series, mean)}
	rng := rand.New(rand.NewPCG(seed, 0x626f6f74)) //nolint:gosec // G404: a seed draws the same resamples again
	distances := make([]float64, Resamples)
	stay := math.Log(1 - 1/out.Block) // -Inf for blocks of one value.
	for b := range distances {
		var sum float64
		for left := n; left > 0; {
			// The inverse of the geometric distribution.
			length := 1 + int(math.Min(-rng.ExpFloat64()/stay, float64(left-1)))
			start := rng.IntN(n)
			whole := min(length, n-start)
			sum += sums[start+whole] - sums[start] + sums[length-whole]
			left -= length
		}
		distances[b] = math.Abs(sum / float64(n))
	}
	slices.Sort(distances)
	radius := distances[int(math.Ceil(Level*Resamples))-1]
	out.Low, out.High = mean-radius, mean+radius
	return out
}

// blockLength is the mean length of the blocks that makes the variance of the resampled mean most
// exact, estimated from the autocovariances: Politis and White 2004, with the correction of
// Patton, Politis and White 2009. It is 1 for a series without autocorrelation, and at most
// min(3 sqrt(n), n/3).
func blockLength(series []float64, mean float64) float64 {
	n := len(series)
	longest := min(int(math.Ceil(math.Sqrt(float64(n))))+max(5, int(math.Log10(float64(n)))), n-1)
	covariances := make([]float64, longest+1)
	for lag := range covariances {
		for i := lag; i < n; i++ {
			covariances[lag] += (series[i] - mean) * (series[i-lag] - mean)
		}
		covariances[lag] /= float64(n)
	}
	if !(covariances[0] > 0) {
		return 1
	}
	// The lag after which several autocorrelations in a row are as small as noise.
	small := 2 * math.Sqrt(math.Log10(float64(n))/float64(n))
	run := max(5, int(math.Sqrt(math.Log10(float64(n)))))
	cut, quiet := longest, 0
	for lag := 1; lag <= longest; lag++ {
		if quiet++; math.Abs(covariances[lag]) >= small*covariances[0] {
			quiet = 0
		}
		if quiet == run {
			cut = lag - run
			break
		}
	}
	width := float64(min(2*max(cut, 1), longest))
	var spectrum, slope float64
	for lag := 1; lag <= int(width); lag++ {
		weight := math.Min(1, 2*(1-float64(lag)/width)) // Flat, then down to 0.
		spectrum += 2 * weight * covariances[lag]
		slope += 2 * weight * float64(lag) * covariances[lag]
	}
	spectrum += covariances[0]
	if !(spectrum > 0) {
		return 1
	}
	length := math.Cbrt(slope * slope / (spectrum * spectrum) * float64(n))
	return math.Max(1, min(length, 3*math.Sqrt(float64(n)), float64(n)/3))
}
