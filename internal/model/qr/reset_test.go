package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model/qr"
)

// Reset replaces the Schur complement of the first features by root² I: it keeps their rows and
// columns of A, and b.
func TestResetReplacesASchurComplement(t *testing.T) {
	const r, k, root = 9, 2, 1.5
	f := qr.New(r, k, 0.5)
	p, rng := make([]float64, k), rand.New(rand.NewPCG(3, 4))
	for range 30 {
		f.Rotate(normalsOf(rng, r+k), p)
	}
	// rows are R, and u behind each.
	rows := func() (all [r][r + k]float64) {
		packed := f.Packed()
		for i := range r {
			copy(all[i][i:], packed[:r-i+k])
			packed = packed[r-i+k:]
		}
		return all
	}
	entry := func(all *[r][r + k]float64, from, a, b int) (sum float64) {
		for i := from; i < r; i++ {
			sum += all[i][a] * all[i][b]
		}
		return sum
	}
	for n := r; n >= 0; n-- {
		before := rows()
		norm := 0.0
		for _, v := range before[max(n-1, 0)][:r] {
			norm += v * v
		}
		assert.InDelta(t, norm, f.RowNorm2(max(n-1, 0)), 1e-13*norm, n-1)
		f.Reset(n, root)
		after := rows()
		for a := range r {
			for b := range r + k {
				want := entry(&before, 0, a, b)
				if a >= n && b >= n && b < r { // Less the Schur complement before.
					want -= entry(&before, n, a, b)
					if a == b {
						want += root * root
					}
				}
				got := entry(&after, 0, a, b)
				assert.False(t, math.Abs(got-want) > 1e-12*(1+math.Abs(want)), "from %d on: entry %d, %d of [A b] is %g, want %g", n, a, b, got, want)
			}
			if a >= n && f.Diagonal()[a] != root {
				t.Errorf("from %d on: diagonal entry %d is %g", n, a, f.Diagonal()[a])
			}
		}
		for i, u := range f.Right() {
			assert.True(t, u == after[i/k][r+i%k], "from %d on: right-hand side %d is %g in the copy", n, i, u)
		}
	}
}

func TestResetOfNoRowPanics(t *testing.T) {
	for _, c := range []struct {
		n    int
		root float64
	}{{-1, 1}, {3, 1}, {0, 0}, {0, math.NaN()}} {
		func() {
			defer func() { assert.NotNil(t, recover(), "from %d on by %g: no panic", c.n, c.root) }()
			qr.New(2, 1, 1).Reset(c.n, c.root)
		}()
	}
}
