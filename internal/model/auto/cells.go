package auto

import (
	"math"

	"hindsight/internal/model/codec"
)

// cells learn a function of up to three numbers from all rows, where a window forgets. Grids, coarse to fine,
// divide each axis into equal steps. The place of a scaled number z on its axis is u = (1 + z/√(1+z²))/2.
// Grid j predicts p_j = Σ_g a_g m_g by linear interpolation, a_g ≥ 0, among the corners g around the row. A
// corner has counted n_g = min(Σωa_g, maxOfCorner) rows. Grid j learns what the coarser grids leave of a
// target t,
//
//	m_g ← m_g + ω a_g (t − Σ_{i≤j} p_i)/(n_g + cornerPrior)
//
// Three experts predict Σ_j p_j: of t = y over all grids, of t = y without the two finest grids, and of
// t = y − v over all grids. See model.Weights for ω.
type cells struct {
	grids []grid
	// counts has n_g, grid after grid; means has m_g of y and of y − v.
	counts []float32
	means  [cellTargets][]float32
}

// grid has steps + 1 corners along each axis. Its first corner has the count counts[from].
type grid struct{ steps, from int }

const (
	cellExperts = 3
	cellTargets = 2
	// Cells take 1 to maxCelled numbers, without categories and keys beside them.
	maxCelled   = 3
	maxOfCorner = 256
	cornerPrior = 4
	maxAround   = 1 << maxCelled
)

// grids returns the grids for a number of inputs, and how many corners they have; none above maxCelled.
func grids(numbers int) (all []grid, corners int) {
	steps := [maxCelled + 1][]int{{}, {8, 32, 128, 512}, {4, 8, 16, 32, 64, 128}, {4, 8, 16, 32}}
	if numbers > maxCelled {
		return nil, 0
	}
	for _, n := range steps[numbers] {
		all = append(all, grid{n, corners})
		count := 1
		for range numbers {
			count *= n + 1
		}
		corners += count
	}
	return all, corners
}

func cellBytes(numbers int) uint64 {
	all, corners := grids(numbers)
	return uint64(4*(1+cellTargets)*corners + 16*len(all)*(1+maxAround))
}

// cellFlops are nominal multiply-adds.
func cellFlops(numbers int) uint64 {
	all, _ := grids(numbers)
	return uint64(20 * len(all) << numbers)
}

func newCells(numbers int) *cells {
	all, corners := grids(numbers)
	c := &cells{grids: all, counts: make([]float32, corners)}
	for t := range c.means {
		c.means[t] = make([]float32, corners)
	}
	return c
}

// corner is a corner around a row, with its place in counts and its weight a.
type corner struct {
	at     int
	weight float64
}

// find appends the 2^d corners around a row of d numbers, for each grid.
func (c *cells) find(dst []corner, z []float32) []corner {
	for _, g := range c.grids {
		from := len(dst)
		dst = append(dst, corner{0, 1})
		for _, v := range z {
			v := float64(v)
			u := float64(g.steps) * (0.5 + 0.5*v/math.Sqrt(1+float64(v*v)))
			low := math.Min(math.Floor(u), float64(g.steps-1))
			part := u - low
			for i := range dst[from:] {
				a := &dst[from+i]
				a.at = a.at*(g.steps+1) + int(low)
				dst = append(dst, corner{a.at + 1, float64(a.weight * part)})
				a = &dst[from+i]
				a.weight *= 1 - part
			}
		}
		for i := range dst[from:] {
			dst[from+i].at += g.from
		}
	}
	return dst
}

// predict writes the predictions of the experts, given the corners of find.
func (c *cells) predict(dst []float64, corners []corner) {
	around := len(corners) / len(c.grids)
	var sums [cellTargets]float64
	for i, a := range corners {
		for t := range sums {
			sums[t] += float64(a.weight * float64(c.means[t][a.at]))
		}
		if i+1 == around*coarse(len(c.grids)) {
			dst[1] = sums[0]
		}
	}
	dst[0], dst[2] = sums[0], sums[1]
}

// coarse is the number of grids of the coarse expert.
func coarse(grids int) int { return grids - 2 }

// learn learns the targets of a row, given its corners and ω in counts.
func (c *cells) learn(corners []corner, targets [cellTargets]float64, counts float64) {
	around := len(corners) / len(c.grids)
	for ; len(corners) > 0; corners = corners[around:] {
		for t, means := range c.means {
			for _, a := range corners[:around] {
				targets[t] -= float64(a.weight * float64(means[a.at]))
			}
		}
		for _, a := range corners[:around] {
			part := float64(counts * a.weight)
			n := math.Min(maxOfCorner, float64(c.counts[a.at])+part)
			c.counts[a.at] = float32(n)
			for t, means := range c.means {
				means[a.at] = float32(within(float64(means[a.at])+float64(part*targets[t])/(n+cornerPrior), -mostCross, mostCross))
			}
		}
	}
}

func (c *cells) visit(v *codec.Visitor) {
	v.SinglesWithin(maxOfCorner, c.counts)
	for _, n := range c.counts {
		if v.Reading() && !(n >= 0) {
			v.Corrupt("a corner of %g rows", n)
		}
	}
	for t := range c.means {
		v.SinglesWithin(mostCross, c.means[t])
	}
}
