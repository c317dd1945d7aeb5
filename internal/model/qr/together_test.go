package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/qr"
)

// rowOf draws z and y. Some entries are 0; one row in three has zeros before
// its first entry, as a row that renews a ridge has.
func rowOf(rng *rand.Rand, r, k int) []float64 {
	row := make([]float64, r+k)
	start := 0
	if r > 0 && rng.IntN(3) == 0 {
		start = rng.IntN(r)
	}
	for i := start; i < len(row); i++ {
		if rng.IntN(8) > 0 {
			row[i] = rng.NormFloat64() * math.Exp(4*rng.NormFloat64())
		}
	}
	return row
}

// One pass over several factors gives what a pass over each gives, bit for bit:
// the factors, rotations, priors and residuals.
func TestTogetherIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	orders := []int{0, 1, 2, 3, 5, 8, 9, 16, 23, 45, 64, 117, 125}
	for trial := range 200 {
		r, k, count := orders[trial%len(orders)], 1+rng.IntN(4), rng.IntN(6)
		turns, apart := make([]qr.Turn, count), make([]*qr.Factor, count)
		for i := range turns {
			lambda := math.Exp(3 * rng.NormFloat64())
			turns[i] = qr.Turn{Factor: qr.New(r, k, lambda), Root: 1, Priors: make([]float64, k)}
			if rng.IntN(3) > 0 {
				turns[i].Root = 1 - 0.5*rng.Float64()
			}
			apart[i] = qr.New(r, k, lambda)
		}
		for range 12 {
			source := rowOf(rng, r, k)
			rows, priors := make([][]float64, count), make([]float64, k)
			for i := range turns {
				turns[i].Row = clone(source)
				if rng.IntN(4) == 0 {
					turns[i].Row = rowOf(rng, r, k)
				}
				rows[i] = clone(turns[i].Row)
			}
			qr.RotateTogether(turns)
			for i, turn := range turns {
				rotation := apart[i].RotateDiscounted(rows[i], priors, turn.Root)
				if rotation != turn.Rotation || !sameBits(priors, turn.Priors) || !sameBits(rows[i], turn.Row) ||
					!sameBits(apart[i].Packed(), turn.Factor.Packed()) || !sameBits(apart[i].Right(), turn.Factor.Right()) ||
					math.Float64bits(apart[i].LogDet(1)) != math.Float64bits(turn.Factor.LogDet(1)) {
					t.Fatalf("r = %d, k = %d, factor %d of %d, root %g: together %+v, priors %g, row %g; apart %+v, %g, %g",
						r, k, i, count, turn.Root, turn.Rotation, turn.Priors, turn.Row, rotation, priors, rows[i])
				}
			}
			checkSolveTogether(t, apart, source[:r], k)
		}
	}
}

// plain is a factor by the text of RotateDiscounted and Solve, an entry at a time
// and without anything ahead of its time.
type plain struct {
	r, k int
	data []float64
}

func (f *plain) rotate(row, p []float64, root float64) qr.Rotation {
	clear(p)
	gamma, leverage, left, own := 1.0, 0.0, 1.0, f.data
	for i := range f.r {
		n := f.r - i + f.k
		if z := row[i]; z == 0 {
			for j := range n {
				own[j] *= root
			}
		} else {
			d := root * own[0]
			norm := math.Sqrt(float64(d*d) + float64(z*z))
			c, s, v := d/norm, z/norm, z/(d*gamma)
			for j := range p {
				p[j] += float64(v * float64(root*own[n-f.k+j]))
			}
			own[0], row[i] = norm, 0
			for j := 1; j < n; j++ {
				a, b := own[j], row[i+j]
				own[j] = float64(float64(c*root)*a) + float64(s*b)
				row[i+j] = float64(c*b) - float64(float64(s*root)*a)
			}
			gamma *= c
			leverage += float64(left * float64(s*s))
			left *= float64(c * c)
		}
		own = own[n:]
	}
	return qr.Rotation{Gamma: gamma, Leverage: min(leverage, 1)}
}

func (f *plain) solve(z, p []float64) (square float64) {
	clear(p)
	own := f.data
	for i := range f.r {
		n := f.r - i
		if z[i] != 0 {
			v := z[i] / own[0]
			z[i] = v
			square += float64(v * v)
			for j := range p {
				p[j] += float64(v * own[n+j])
			}
			for j := 1; j < n; j++ {
				z[i+j] += float64(-v * own[j])
			}
		}
		own = own[n+f.k:]
	}
	return square
}

// A pass has the bits of the plain text, for every order and number of columns.
func TestPassIsThePlainText(t *testing.T) {
	rng, registers := rand.New(rand.NewPCG(43, 44)), modeltest.Registers(t)
	for r := range 70 {
		for k := 1; k <= 5; k++ {
			registers(r + k)
			f := qr.New(r, k, math.Exp(3*rng.NormFloat64()))
			want := &plain{r: r, k: k, data: f.Packed()}
			p, plainP := make([]float64, k), make([]float64, k)
			for n := range 6 {
				row, root := rowOf(rng, r, k), 1-0.25*float64(n%3)
				z, plainZ, plainRow := clone(row[:r]), clone(row[:r]), clone(row)
				square, plainSquare := f.Solve(z, p), want.solve(plainZ, plainP)
				if math.Float64bits(square) != math.Float64bits(plainSquare) || !sameBits(z, plainZ) || !sameBits(p, plainP) {
					t.Fatalf("r = %d, k = %d: solves %g, %g, %g, want %g, %g, %g", r, k, square, z, p, plainSquare, plainZ, plainP)
				}
				rotation, plainRotation := f.RotateDiscounted(row, p, root), want.rotate(plainRow, plainP, root)
				if rotation != plainRotation || !sameBits(p, plainP) || !sameBits(row, plainRow) || !sameBits(f.Packed(), want.data) {
					t.Fatalf("r = %d, k = %d, root %g: %+v, %g, %g, want %+v, %g, %g", r, k, root, rotation, p, row, plainRotation, plainP, plainRow)
				}
			}
		}
	}
}

// A row that begins with zeros leaves the rows before as they are, and costs no
// more than the rest.
func TestRotationThatBeginsLate(t *testing.T) {
	const r, k = 40, 2
	rng := rand.New(rand.NewPCG(45, 46))
	f := qr.New(r, k, 1)
	p := make([]float64, k)
	for range 50 {
		f.Rotate(rowOf(rng, r, k), p)
	}
	before := f.Packed()
	row := make([]float64, r+k)
	row[30] = 0.5
	f.Rotate(row, p)
	same := 0
	for i := range 30 {
		same += r - i + k
	}
	assert.True(t, sameBits(f.Packed()[:same], before[:same]) && !sameBits(f.Packed()[same:], before[same:]), "the wrong rows were turned")
}

func checkSolveTogether(t *testing.T, factors []*qr.Factor, z []float64, k int) {
	t.Helper()
	solutions := make([]qr.Solution, len(factors))
	for i, f := range factors {
		solutions[i] = qr.Solution{Factor: f, Z: clone(z), Priors: make([]float64, k)}
	}
	qr.SolveTogether(solutions)
	for i, s := range solutions {
		v, priors := clone(z), make([]float64, k)
		square := factors[i].Solve(v, priors)
		if math.Float64bits(square) != math.Float64bits(s.Square) || !sameBits(v, s.Z) || !sameBits(priors, s.Priors) {
			t.Fatalf("solution %d of %d: together %g, %g, %g; apart %g, %g, %g", i, len(factors), s.Square, s.Z, s.Priors, square, v, priors)
		}
	}
}

func TestTogetherWantsOneShape(t *testing.T) {
	turn := func(r, k int) qr.Turn {
		return qr.Turn{Factor: qr.New(r, k, 1), Row: make([]float64, r+k), Priors: make([]float64, k), Root: 1}
	}
	short, wide := turn(3, 1), turn(3, 1)
	short.Row, wide.Root = short.Row[1:], 1.5
	for name, turns := range map[string][]qr.Turn{
		"orders":  {turn(3, 1), turn(2, 1)},
		"columns": {turn(3, 1), turn(3, 2)},
		"row":     {turn(3, 1), short},
		"root":    {turn(3, 1), wide},
	} {
		assert.True(t, panics(func() { qr.RotateTogether(turns) }), "%s: RotateTogether did not panic", name)
	}
	solution := func(r, k, length int) qr.Solution {
		return qr.Solution{Factor: qr.New(r, k, 1), Z: make([]float64, length), Priors: make([]float64, k)}
	}
	for name, solutions := range map[string][]qr.Solution{
		"orders":  {solution(3, 1, 3), solution(2, 1, 2)},
		"columns": {solution(3, 1, 3), solution(3, 2, 3)},
		"length":  {solution(3, 1, 3), solution(3, 1, 2)},
	} {
		assert.True(t, panics(func() { qr.SolveTogether(solutions) }), "%s: SolveTogether did not panic", name)
	}
}

func TestNewRowEndsWithACacheLine(t *testing.T) {
	for n := range 70 {
		row := qr.NewRow(n)
		past := uintptr(unsafe.Pointer(unsafe.SliceData(row))) + uintptr(8*n)
		assert.True(t, len(row) == n && cap(row) == n && past%64 == 0, "%d numbers of %d, capacity %d, end at %x", len(row), n, cap(row), past)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func clone(v []float64) []float64 { return append([]float64(nil), v...) }

func sameBits(a, b []float64) bool {
	for i, v := range a {
		if math.Float64bits(v) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func normals(n int) []float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

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
		assert.True(t, u == f.Right()[i], "right-hand side %d is %g in the copy, %g in the rows", i, f.Right()[i], u)
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
