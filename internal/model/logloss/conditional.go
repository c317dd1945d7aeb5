package logloss

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// conditional are normal densities of the numbers of a row given the class, independent of each
// other, with one variance for all classes:
//
//	log p(k) = log π_k − ½ Σ_j (x_j − m_kj)²/v_j + constant
//
// m_k is the mean of class k, shrunk to the mean of all rows by the weight of one row; v is the
// mean squared deviation from the mean of the row's class before the row. A row costs O(d) to learn
// and O(Kd) to predict.
//
// Source: Tibshirani, Hastie, Narasimhan and Chu, Diagnosis of multiple cancer types by shrunken
// centroids of gene expression (2002).
type conditional struct {
	all    []float64
	within []float64
	// means are by classes, by numbers; counts are Σω, of the rows of a class and of all.
	means  []float64
	counts []float64
	total  float64
	// deviations is Σω of the rows that add to within: the rows of a known class.
	deviations float64
}

func (c *conditional) mean(class int) []float64 { return c.means[class*len(c.all):][:len(c.all)] }

// logs writes log p, normalized, given the logarithms of the shares; inverse is scratch of the length of x.
func (c *conditional) logs(dst, each, inverse, x, shares []float64) {
	for j, squares := range c.within {
		inverse[j] = 0
		if squares > 0 {
			inverse[j] = c.deviations / squares
		}
	}
	for k := range dst {
		mean, n := c.mean(k), c.counts[k]
		shrunk, sum := n/(n+1), 0.0
		for j, v := range x {
			off := v - c.all[j] - float64(shrunk*(mean[j]-c.all[j]))
			sum += float64(float64(off*off) * inverse[j])
		}
		dst[k] = shares[k] - 0.5*sum
	}
	normalize(dst, each)
}

// learn learns a row of a class, the next one if it is new.
func (c *conditional) learn(x []float64, class int, weight float64) {
	if class == len(c.counts) {
		c.counts = append(c.counts, 0)
		c.means = append(c.means, x...)
	}
	c.total += weight
	part := weight / c.total
	for j, v := range x {
		c.all[j] += float64(part * (v - c.all[j]))
	}
	mean, n := c.mean(class), c.counts[class]
	c.counts[class] += weight
	if n == 0 {
		return
	}
	c.deviations += weight
	part = weight / c.counts[class]
	for j, v := range x {
		off := v - mean[j]
		mean[j] += float64(part * off)
		c.within[j] = math.Min(maxCount, c.within[j]+float64(float64(weight*off)*(v-mean[j])))
	}
}

func (c *conditional) change(changes []moments.Change) {
	for _, change := range changes {
		j := change.Column
		c.all[j] = within(float64(change.Factor*c.all[j]) + change.Shift)
		for k := range c.counts {
			mean := c.mean(k)
			mean[j] = within(float64(change.Factor*mean[j]) + change.Shift)
		}
		c.within[j] = math.Min(maxCount, float64(float64(change.Factor*change.Factor)*c.within[j]))
	}
}

// within keeps a mean in the range of numbers.
func within(v float64) float64 {
	return math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, v))
}

// maxCount bounds sums of weights.
const maxCount = 1e30

func (c *conditional) visit(v *codec.Visitor, classes int) {
	if v.Reading() {
		c.counts, c.means = make([]float64, classes), make([]float64, classes*len(c.all))
	}
	v.FloatsWithin(model.MaxMagnitude, c.all)
	v.FloatsWithin(model.MaxMagnitude, c.means)
	v.FloatsWithin(maxCount, c.within)
	v.FloatsWithin(maxCount, c.counts)
	v.Within(maxCount, &c.total, &c.deviations)
	if !v.Reading() {
		return
	}
	sum := 0.0
	for k, n := range c.counts {
		if sum += n; !(n > 0) {
			v.Corrupt("class %d counts %g", k, n)
		}
	}
	if !(c.deviations >= 0 && c.deviations <= c.total && math.Abs(sum-c.total) <= 1e-6*sum) {
		v.Corrupt("rows of %g, of known classes %g, of all classes %g", c.total, c.deviations, sum)
	}
	for j, squares := range c.within {
		if !(squares >= 0) {
			v.Corrupt("number %d deviates by %g", j, squares)
		}
	}
}
