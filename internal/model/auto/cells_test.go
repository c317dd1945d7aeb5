package auto_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/auto"
)

// naiveCells are cells of two numbers by their formula: each corner has a weight in each row, mostly 0.
type naiveCells struct {
	steps  []int
	counts []map[[2]int]float64
	means  [2][]map[[2]int]float64
}

func newNaiveCells() *naiveCells {
	n := &naiveCells{steps: []int{4, 8, 16, 32, 64, 128}}
	for range n.steps {
		n.counts = append(n.counts, map[[2]int]float64{})
		for t := range n.means {
			n.means[t] = append(n.means[t], map[[2]int]float64{})
		}
	}
	return n
}

// weights are a, of all corners of a grid.
func (n *naiveCells) weights(grid int, z []float32) map[[2]int]float64 {
	weights := map[[2]int]float64{}
	hat := func(v float32, corner int) float64 {
		u := float64(n.steps[grid]) * (1 + float64(v)/math.Sqrt(1+float64(v)*float64(v))) / 2
		return math.Max(0, 1-math.Abs(u-float64(corner)))
	}
	for i := range n.steps[grid] + 1 {
		for j := range n.steps[grid] + 1 {
			if a := hat(z[0], i) * hat(z[1], j); a > 0 {
				weights[[2]int{i, j}] = a
			}
		}
	}
	return weights
}

func (n *naiveCells) sum(target, grids int, z []float32) (sum float64) {
	for g := range grids {
		for corner, a := range n.weights(g, z) {
			sum += a * n.means[target][g][corner]
		}
	}
	return sum
}

func (n *naiveCells) learn(z []float32, targets [2]float64, counts float64) {
	for target, t := range targets {
		left := make([]float64, len(n.steps)) // Before the row.
		for g := range left {
			left[g] = t - n.sum(target, g+1, z)
		}
		for g := range n.steps {
			for corner, a := range n.weights(g, z) {
				if target == 0 {
					n.counts[g][corner] = math.Min(256, n.counts[g][corner]+counts*a)
				}
				n.means[target][g][corner] += counts * a * left[g] / (n.counts[g][corner] + 4)
			}
		}
	}
}

func TestCellsAreTheNaiveOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	c, n := auto.NewCells(2), newNaiveCells()
	for row := range 100 {
		z := []float32{float32(rng.NormFloat64()), float32(math.Pow(10, float64(row%20)-4)) * float32(rng.NormFloat64())}
		said := c.Predict(z)
		for e, want := range []float64{n.sum(0, 6, z), n.sum(0, 4, z), n.sum(1, 6, z)} {
			require.False(t, math.Abs(said[e]-want) > 1e-5, "row %d: expert %d says %g, want %g", row, e, said[e], want)
		}
		targets := [2]float64{float64(z[0]) + rng.NormFloat64(), rng.NormFloat64()}
		counts := 1 - 0.9*float64(row%2)
		c.Learn(z, targets, counts)
		n.learn(z, targets, counts)
	}
}

// The corners around a row are those of linear interpolation, also beyond all other rows.
func TestCornersInterpolate(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for d := 1; d <= 3; d++ {
		c := auto.NewCells(d)
		for range 200 {
			z := make([]float32, d)
			for i := range z {
				z[i] = float32(math.Copysign(math.Pow(10, 40*rng.Float64()-20), rng.Float64()-0.5))
			}
			for _, weights := range c.Weights(z) {
				sum := 0.0
				for _, a := range weights {
					require.True(t, a >= 0, "weights %g at %g", weights, z)
					sum += a
				}
				require.False(t, math.Abs(sum-1) > 1e-12 || len(weights) != 1<<d, "weights %g of sum %g", weights, sum)
			}
		}
	}
	assert.EqualValues(t, 0, auto.CellBytes(4), "cells of four numbers")
}

// Cells remember more rows than a window, and so follow a rough function through noise of deviation .37.
func TestCellsFollowARoughMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	c, excess, asked := auto.NewCells(2), 0.0, 0
	const rows = 60_000
	for row := range rows {
		a, b := rng.Float64(), rng.Float64()
		f := math.Sin(40*a) * math.Cos(35*b)
		z := []float32{float32(3.46 * (a - 0.5)), float32(3.46 * (b - 0.5))}
		if said := c.Predict(z); row >= rows*3/4 {
			excess += (said[0] - f) * (said[0] - f)
			asked++
		}
		c.Learn(z, [2]float64{f + 0.37*rng.NormFloat64(), 0}, 1)
	}
	if mean := excess / float64(asked); mean > 0.37*0.37/8 { // The variance of eight neighbors without a bias.
		t.Errorf("an excess of %.4f", mean)
	}
}
