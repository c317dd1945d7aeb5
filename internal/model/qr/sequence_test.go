package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/qr"
)

// One pass with several observations gives what a pass with each gives, one after the other,
// bit for bit: the factor, its copies, rotations, priors and residuals.
func TestSequenceIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for trial := range 300 {
		r, k, lambda := trial%140, 1+rng.IntN(4), math.Exp(3*rng.NormFloat64())
		together, apart := qr.New(r, k, lambda), qr.New(r, k, lambda)
		for range 3 {
			turns := make([]qr.Turn, rng.IntN(12))
			for i := range turns {
				turns[i] = qr.Turn{Factor: together, Row: qr.NewRow(r + k), Priors: make([]float64, k), Root: 1}
				copy(turns[i].Row, rowOf(rng, r, k))
				if rng.IntN(2) == 0 {
					for j := range turns[i].Row {
						turns[i].Row[j] += rng.NormFloat64()
					}
				}
			}
			rows, priors := make([][]float64, len(turns)), make([]float64, k)
			for i, turn := range turns {
				rows[i] = clone(turn.Row)
			}
			qr.RotateSequence(turns)
			for i, turn := range turns {
				rotation := apart.Rotate(rows[i], priors)
				if rotation != turn.Rotation || !sameBits(priors, turn.Priors) || !sameBits(rows[i][r:], turn.Row[r:]) {
					t.Fatalf("r = %d, k = %d, observation %d of %d: together %+v, priors %g, row %g; apart %+v, %g, %g",
						r, k, i, len(turns), turn.Rotation, turn.Priors, turn.Row, rotation, priors, rows[i])
				}
			}
			if !sameBits(apart.Packed(), together.Packed()) || !sameBits(apart.Right(), together.Right()) ||
				!sameBits(apart.Diagonal(), together.Diagonal()) {
				t.Fatalf("r = %d, k = %d: %d observations together leave another factor", r, k, len(turns))
			}
		}
	}
}

// Renew leaves the Schur complement of A_jj, b less what A_jj explains of it, and root² in place
// of A_jj.
func TestRenewForgetsAFeature(t *testing.T) {
	const r, k, lambda = 7, 2, 0.3
	for j := range r {
		rng := rand.New(rand.NewPCG(uint64(j), 5))
		f, d := qr.New(r, k, lambda), newDense(r, k, lambda)
		row := qr.NewRow(r + k)
		for range 20 {
			for i := range row {
				row[i] = rng.NormFloat64()
			}
			row[1] += row[0]
			z, y := append([]float64(nil), row[:r]...), append([]float64(nil), row[r:]...)
			f.Rotate(row, make([]float64, k))
			d.add(z, y)
		}
		f.Renew(j, math.Sqrt(lambda))
		corner := d.a.At(j, j)
		a, b := mat.NewSymDense(r, nil), mat.NewDense(r, k, nil)
		for m := range r {
			for n := range m + 1 {
				if m != j && n != j {
					a.SetSym(m, n, d.a.At(m, n)-d.a.At(m, j)*d.a.At(j, n)/corner)
				}
			}
			for c := range k {
				if m != j {
					b.Set(m, c, d.b.At(m, c)-d.a.At(m, j)*d.b.At(j, c)/corner)
				}
			}
		}
		a.SetSym(j, j, lambda)
		d.a, d.b = a, b
		z := make([]float64, r)
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		q, p := d.solve(t, z)
		got := make([]float64, k)
		square := f.Solve(z, got)
		assert.False(t, math.Abs(square-q) > 1e-9*q, "feature %d: q = %g, want %g", j, square, q)
		for c := range p {
			assert.False(t, math.Abs(got[c]-p[c]) > 1e-9, "feature %d: p = %g, want %g", j, got[c], p[c])
		}
	}
}

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

// A shift along v = R⁻ᵀz moves b by z and the value at z by ‖v‖². It touches neither R
// nor another column.
func TestShiftMovesTheRightHandSideAlongOneInput(t *testing.T) {
	const r, k, by = 7, 3, 0.75
	f := qr.New(r, k, 0.5)
	p := make([]float64, k)
	for range 20 {
		f.Rotate(normals(r+k), p)
	}
	z := normals(r)
	v := append([]float64(nil), z...)
	before, after := make([]float64, k), make([]float64, k)
	q := f.Solve(v, before)
	packed := f.Packed()
	f.Shift(v, by, 1)
	assert.Equal(t, q, f.Solve(append([]float64(nil), z...), after))
	want := before[1] - by*q
	assert.False(t, math.Abs(after[1]-want) > 1e-13*(1+math.Abs(want)) || after[0] != before[0] || after[2] != before[2], "values %g, were %g, moved by %g", after, before, by*q)
	changed := 0
	for i, entry := range f.Packed() {
		if entry != packed[i] {
			changed++
		}
	}
	assert.EqualValues(t, r, changed)
	restored, err := qr.FromPacked(r, k, f.Packed(), 1e-3, 1e9)
	require.NoError(t, err)
	for i, u := range restored.Right() {
		if u != f.Right()[i] {
			t.Errorf("right-hand side %d is %g in the copy, %g in the rows", i, f.Right()[i], u)
		}
	}
}

func TestShiftOfWrongShapesPanics(t *testing.T) {
	f := qr.New(2, 1, 1)
	for name, call := range map[string]func(){
		"short":  func() { f.Shift([]float64{1}, 1, 0) },
		"column": func() { f.Shift([]float64{1, 2}, 1, 1) },
		"before": func() { f.Shift([]float64{1, 2}, 1, -1) },
	} {
		func() {
			defer func() { assert.NotNil(t, recover(), "%s: no panic", name) }()
			call()
		}()
	}
}
