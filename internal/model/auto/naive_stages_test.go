package auto_test

import (
	"math"
	"sort"
)

// rebuild is a stage.
func (n *naive) rebuild() {
	k := n.o.Outputs
	n.units.offset, n.units.scale = make([]float64, k), make([]float64, k)
	for j := range k {
		labels := n.pick(func(r naiveRow) float64 { return r.y[j] })
		mean, square := momentsOf(labels, n.counts())
		n.units.offset[j], n.units.scale[j] = mean, math.Sqrt(square)
		if square == 0 {
			n.units.scale[j] = math.Max(math.Abs(mean), 1)
		}
		signs := true
		for _, y := range labels {
			signs = signs && math.Abs(y) == 1
		}
		if signs {
			n.units.offset[j], n.units.scale[j] = 0, 1
		}
	}
	var rows [][]float64
	for _, r := range n.rows {
		rows = append(rows, n.columns(r.x, r.lags))
	}
	d := n.o.Dimension
	n.units.median = median(rows, func(j int) float64 { return indicator(j < d) })
	n.units.lagged = median(rows, func(j int) float64 { return indicator(j < d) + 64*indicator(j >= d) })
	n.units.sparse = nil
	for _, f := range n.sparse {
		n.units.sparse = append(n.units.sparse, median(rows, func(j int) float64 {
			return indicator(j == int(f[0]) || j == int(f[1]))
		}))
	}
	n.forecasters, n.descents = nil, nil
	for kind := range 5 {
		r := d + n.o.Lags*k + 1
		if kind > 0 {
			r += 2 * n.o.Frequencies
		}
		for _, f := range []float64{1, 0.999, 0.99} {
			n.forecasters = append(n.forecasters, newDense(kind, r, 2*k, 0.01, f))
		}
	}
	for kind := 1; kind < 5; kind++ {
		for _, step := range []float64{0.1, 0.5} {
			n.descents = append(n.descents, &naiveDescent{kind: kind, step: step, theta: matrix(k, 2*n.o.Frequencies)})
		}
	}
	for _, out := range n.outputs {
		out.stacks = nil
		for _, f := range []float64{1, 0.999, 0.99} {
			out.stacks = append(out.stacks, newDense(-1, 43, 1, 3, f))
		}
	}
	for _, r := range n.rows {
		n.learnExperts(r)
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// median is the median distance between rows, columns weighted by their
// squares.
func median(rows [][]float64, weight func(column int) float64) float64 {
	var all []float64
	for i, a := range rows {
		for _, b := range rows[:i] {
			sum := 0.0
			for j := range a {
				sum += weight(j) * (a[j] - b[j]) * (a[j] - b[j])
			}
			all = append(all, math.Sqrt(sum))
		}
	}
	sort.Float64s(all)
	if m := all[len(all)/2]; m > 1e-9 {
		return m
	}
	return 1
}
