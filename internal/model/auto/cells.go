package auto

import (
	"math"

	"hindsight/internal/model/codec"
)

// cells learn a function of up to three numbers from all rows, where a window forgets. A number z,
// scaled as the window shows it, is at u = (1 + z/√(1+z²))/2 of each of some grids, coarse to fine.
// With the weights a_g ≥ 0 of linear interpolation among the corners g around a row, grid j says
// p_j = Σ_g a_g m_g, and learns with n_g = min(Σωa_g, maxOfCorner)
//
//	m_g ← m_g + ω a_g (t − Σ_{i≤j} p_i)/(n_g + cornerPrior)
//
// what the coarser grids leave of t. Three experts say Σ_j p_j: of t = y on all grids and on all but
// the two finest, and the residual y − v on all grids. See model.Weights for ω.
type cells struct {
	grids []grid
	// counts has n_g, grid after grid; means has m_g of y and of y − v.
	counts []float32
	means  [cellTargets][]float32
}

// grid has steps + 1 corners along each number, the first at from in counts.
type grid struct{ steps, from int }

const (
	cellExperts = 3
	cellTargets = 2
	// Cells take 1 to maxCelled numbers, without categories and keys beside them.
	maxCelled   = 3
	maxOfCorner = 256
	cornerPrior = 4
	// The largest number of corners around a row.
	maxAround = 1 << maxCelled
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

// corner is a corner around a row, with its a.
type corner struct {
	at     int
	weight float64
}

// find appends the corners around a row of each grid: 2^d of d numbers.
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

// predict writes what the experts say at the corners.
func (c *cells) predict(dst []float64, found []corner) {
	around := len(found) / len(c.grids)
	var sums [cellTargets]float64
	for i, a := range found {
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

// learn teaches the corners the targets of a row that counts ω.
func (c *cells) learn(found []corner, targets [cellTargets]float64, counts float64) {
	around := len(found) / len(c.grids)
	for ; len(found) > 0; found = found[around:] {
		corners := found[:around]
		for t, means := range c.means {
			for _, a := range corners {
				targets[t] -= float64(a.weight * float64(means[a.at]))
			}
		}
		for _, a := range corners {
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
