package qr

import (
	"math"
	"unsafe"

	"hindsight/internal/model/loops"
)

// Turn is one factor's part of RotateTogether: what RotateDiscounted takes, and
// the Rotation that it yields.
type Turn struct {
	// Factor is what gets the observation.
	Factor *Factor
	// Row is z and then y, order+columns numbers. It is overwritten as Rotate
	// says: its label part is left holding ε.
	Row []float64
	// Priors is where p goes, columns numbers.
	Priors []float64
	// Root is what [R u] is multiplied by first, in (0, 1].
	Root float64
	// Rotation is what the pass yielded.
	Rotation Rotation

	pass loops.Turn
}

// NewRow returns n zeros that end at the end of a cache line. Rotate and Solve accept any
// row. They take blocks of entries counted from the row's end, so that no block of an aligned
// row lies in two lines: a rotation of order 276 takes three quarters of the time. The last
// entries of a row are aligned too.
func NewRow(n int) []float64 {
	room := make([]float64, n+loops.Line-1)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(room))) / 8 //nolint:gosec // Only its alignment is used.
	first := -(int(start) + n) & (loops.Line - 1)
	return room[first : first+n : first+n]
}

// NewRows returns count rows as NewRow does. Entries of different rows in one column are not
// in one place of a cache that a multiple of 4 KB apart shares.
func NewRows(count, n int) [][]float64 {
	const step = 512 / 8
	pitch := (n+step-1)/step*step | step // An odd number of steps.
	room, rows := NewRow(count*pitch), make([][]float64, count)
	for i := range rows {
		end := (i + 1) * pitch
		rows[i] = room[end-n : end : end]
	}
	return rows
}

// RotateTogether is RotateDiscounted of every turn, bit for bit, in one pass:
// row i of all factors is turned before row i+1 of any, so that their square
// roots and divisions do not wait for one another. It allocates nothing. Neither factors
// nor slices of two turns may overlap. It panics unless all factors have one order and one
// number of columns, and where RotateDiscounted does.
func RotateTogether(turns []Turn) {
	if len(turns) == 0 {
		return
	}
	order, columns := turns[0].Factor.order, turns[0].Factor.columns
	first := order
	for i := range turns {
		t := &turns[i]
		if t.Factor.order != order || t.Factor.columns != columns {
			panic("qr: RotateTogether wants factors of one order with one number of columns")
		}
		first = min(first, t.begin())
	}
	if first < order {
		for i := range turns {
			turns[i].annihilate(first)
		}
		if !loops.TurnRows(&turns[0].pass, unsafe.Sizeof(turns[0]), len(turns), first, order, columns, turns[0].Factor.row(first)) {
			turnGo(turns, first, order)
		}
	}
	for i := range turns {
		p := &turns[i].pass
		turns[i].Rotation = rotation(p.Gamma, p.Leverage)
	}
}

// begin prepares the pass. It returns the first row to turn: without discounting, the first row of
// the first entry that is not 0.
func (t *Turn) begin() (first int) {
	f := t.Factor
	if len(t.Row) != f.order+f.columns || len(t.Priors) != f.columns {
		panic("qr: Rotate wants a row of order+columns numbers and columns predictions")
	}
	if !(t.Root > 0 && t.Root <= 1) {
		panic("qr: RotateDiscounted wants a root in (0, 1]")
	}
	clear(t.Priors)
	t.pass = loops.Turn{Gamma: 1, Left: 1, Root: t.Root}
	if f.order == 0 {
		return 0
	}
	p := &t.pass
	p.Data, p.Row, p.Priors, p.Right, p.Diagonal = &f.data[0], &t.Row[0], &t.Priors[0], &f.right[0], &f.diagonal[0]
	if t.Root == 1 {
		for first < f.order && t.Row[first] == 0 {
			first++
		}
	}
	return first
}

// rotation is what a pass yielded, whose leverage rounding may leave above 1.
func rotation(gamma, leverage float64) Rotation {
	return Rotation{Gamma: gamma, Leverage: math.Min(leverage, 1)}
}

// turnGo turns the rows from first on, whose rotations have been found.
func turnGo(turns []Turn, first, order int) {
	for i := first; i < order; i++ {
		for j := range turns {
			turns[j].step(i)
		}
	}
}

// annihilate computes the rotation that annihilates entry i of the row against row i of the
// factor.
func (t *Turn) annihilate(i int) {
	f, p, z := t.Factor, &t.pass, t.Row[i]
	if z == 0 { // c = 1, s = 0: nothing turns.
		p.Still = 1
		return
	}
	own := f.rowSlice(i)
	d := float64(t.Root * own[0])
	norm := math.Sqrt(float64(d*d) + float64(z*z))
	v := z / (d * p.Gamma)
	for j, u := range own[len(own)-f.columns:] {
		t.Priors[j] += float64(v * float64(t.Root*u))
	}
	own[0], t.Row[i], f.diagonal[i] = norm, 0, norm
	p.C, p.S, p.Still = d/norm, z/norm, 0
	p.Gamma *= p.C
	p.Leverage += float64(p.Left * float64(p.S*p.S))
	p.Left *= float64(p.C * p.C)
}

// step turns row i. It finds the rotation of the next row as soon as the entry to annihilate
// is known, so that its square root and divisions run beside the rest of row i.
func (t *Turn) step(i int) {
	f, p := t.Factor, &t.pass
	own, in, last := f.rowSlice(i), t.Row[i:], i+1 == f.order
	if p.Still != 0 {
		if t.Root != 1 {
			loops.Scale(own, t.Root)
			f.copyRow(i, own)
		}
		if !last {
			t.annihilate(i + 1)
		}
		return
	}
	c, s := p.C, p.S
	ca, sa := float64(c*t.Root), float64(s*t.Root)
	at := 1
	if !last {
		a, b := own[1], in[1]
		own[1] = float64(ca*a) + float64(s*b)
		in[1] = float64(c*b) - float64(sa*a)
		t.annihilate(i + 1)
		at = 2
	}
	loops.Rotate(own[at:], in[at:], ca, sa, c, s)
	copy(f.right[i*f.columns:(i+1)*f.columns], own[len(own)-f.columns:])
}

// Solution is one factor's part of SolveTogether: what Solve takes, and the
// square that it yields.
type Solution struct {
	Factor *Factor
	// Z is z, order numbers. It is overwritten by v = R⁻ᵀz.
	Z []float64
	// Priors is where p goes, columns numbers.
	Priors []float64
	// Square is q = ‖v‖².
	Square float64

	pass loops.Substitution
}

// SolveTogether is Solve of every solution, bit for bit, in one pass, as
// RotateTogether rotates. The factors may be the same; slices of two solutions
// must not overlap. It panics unless all factors have one order and one number
// of columns, and where Solve does. It allocates nothing.
func SolveTogether(solutions []Solution) {
	if len(solutions) == 0 {
		return
	}
	order, columns := solutions[0].Factor.order, solutions[0].Factor.columns
	for i := range solutions {
		s := &solutions[i]
		if s.Factor.order != order || s.Factor.columns != columns {
			panic("qr: SolveTogether wants factors of one order with one number of columns")
		}
		if len(s.Z) != order || len(s.Priors) != columns {
			panic("qr: Solve wants order features and columns predictions")
		}
		clear(s.Priors)
		s.pass = loops.Substitution{}
		if order > 0 {
			s.pass = loops.Substitution{Data: &s.Factor.data[s.Factor.row(0)], Z: &s.Z[0], Priors: &s.Priors[0]}
			s.solveEntry(0)
		}
	}
	if order > 1 && !loops.SubstituteRows(&solutions[0].pass, unsafe.Sizeof(solutions[0]), len(solutions), order, columns) {
		substituteGo(solutions, order)
	}
	for i := range solutions {
		solutions[i].Square = solutions[i].pass.Square
	}
}

// substituteGo takes every entry out of those behind it. The first has been found.
func substituteGo(solutions []Solution, order int) {
	for i := range order - 1 {
		for j := range solutions {
			solutions[j].step(i)
		}
	}
}

func (s *Solution) solveEntry(i int) {
	z := s.Z[i]
	if z == 0 {
		s.pass.Still = 1
		return
	}
	own := s.Factor.rowSlice(i)
	v := z / own[0]
	s.Z[i], s.pass.V, s.pass.Still = v, v, 0
	s.pass.Square += float64(v * v)
	for j, u := range own[len(own)-s.Factor.columns:] {
		s.Priors[j] += float64(v * u)
	}
}

// step takes entry i, not the last, out of those behind it, and finds the next one early.
func (s *Solution) step(i int) {
	if s.pass.Still != 0 {
		s.solveEntry(i + 1)
		return
	}
	own, z, v := s.Factor.rowSlice(i), s.Z[i:], s.pass.V
	z[1] += float64(-v * own[1])
	s.solveEntry(i + 1)
	loops.Axpy(z[2:], own[2:len(z)], -v)
}
