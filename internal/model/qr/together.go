package qr

import (
	"math"

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

	pass pass
}

// pass is what a rotation pass knows between two rows.
type pass struct {
	// These are where the slices of the turn begin.
	data, row, priors, right, diagonal *float64
	// c and s are the cosine and the sine of the row at hand. It is still, and has
	// neither, when its entry of z is 0.
	c, s  float64
	still int64
	// gamma is Π c so far, leverage the sum of what the sines give, left Π c².
	gamma, leverage, left float64
}

// RotateTogether is RotateDiscounted of every turn, bit for bit, in one pass:
// row i of all factors is turned before row i+1 of any, so that their square
// roots and divisions need not wait for one another. It allocates nothing.
//
// The rows may be the same observation, for factors that differ in what they
// forget, or others. Neither factors nor slices of two turns may overlap. It
// panics unless all factors have one order and one number of columns, and where
// RotateDiscounted does.
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
			turns[i].find(first)
		}
		turn(turns, first, order, columns)
	}
	for i := range turns {
		p := &turns[i].pass
		turns[i].Rotation = Rotation{Gamma: p.gamma, Leverage: math.Min(p.leverage, 1)}
	}
}

// begin prepares the pass. It returns the first row that has something to do:
// without discounting those before the first entry that is not 0 have nothing.
func (t *Turn) begin() (first int) {
	f := t.Factor
	if len(t.Row) != f.order+f.columns || len(t.Priors) != f.columns {
		panic("qr: Rotate wants a row of order+columns numbers and columns predictions")
	}
	if !(t.Root > 0 && t.Root <= 1) {
		panic("qr: RotateDiscounted wants a root in (0, 1]")
	}
	clear(t.Priors)
	t.pass = pass{gamma: 1, left: 1}
	if f.order == 0 {
		return 0
	}
	p := &t.pass
	p.data, p.row, p.priors, p.right, p.diagonal = &f.data[0], &t.Row[0], &t.Priors[0], &f.right[0], &f.diagonal[0]
	if t.Root == 1 {
		for first < f.order && t.Row[first] == 0 {
			first++
		}
	}
	return first
}

// turnGo turns the rows from first on, of which the rotations have been found.
func turnGo(turns []Turn, first, order int) {
	for i := first; i < order; i++ {
		for j := range turns {
			turns[j].step(i)
		}
	}
}

// find computes the rotation that annihilates entry i of the row against row i of
// the factor, and does what needs no more than that.
func (t *Turn) find(i int) {
	f, p, z := t.Factor, &t.pass, t.Row[i]
	if z == 0 { // c = 1, s = 0: nothing turns.
		p.still = 1
		return
	}
	own := f.rowSlice(i)
	d := float64(t.Root * own[0])
	norm := math.Sqrt(float64(d*d) + float64(z*z))
	v := z / (d * p.gamma)
	for j, u := range own[len(own)-f.columns:] {
		t.Priors[j] += float64(v * float64(t.Root*u))
	}
	own[0], t.Row[i], f.diagonal[i] = norm, 0, norm
	p.c, p.s, p.still = d/norm, z/norm, 0
	p.gamma *= p.c
	p.leverage += float64(p.left * float64(p.s*p.s))
	p.left *= float64(p.c * p.c)
}

// step turns row i, and finds the rotation of the next. That is done as soon as
// the entry is known that it is to annihilate, so that its square root and its
// divisions run beside the rest of row i.
func (t *Turn) step(i int) {
	f, p := t.Factor, &t.pass
	own, in, last := f.rowSlice(i), t.Row[i:], i+1 == f.order
	if p.still != 0 {
		if t.Root != 1 {
			loops.Scale(own, t.Root)
			f.copyRow(i, own)
		}
		if !last {
			t.find(i + 1)
		}
		return
	}
	c, s := p.c, p.s
	ca, sa := float64(c*t.Root), float64(s*t.Root)
	at := 1
	if !last {
		a, b := own[1], in[1]
		own[1] = float64(ca*a) + float64(s*b)
		in[1] = float64(c*b) - float64(sa*a)
		t.find(i + 1)
		at = 2
	}
	loops.Rotate(own[at:], in[at:], ca, sa, c, s)
	copy(f.right[i*f.columns:(i+1)*f.columns], own[len(own)-f.columns:])
}

// Solution is one factor's part of SolveTogether: what Solve takes, and the
// square that it yields.
type Solution struct {
	// Factor is what is solved with.
	Factor *Factor
	// Z is z, order numbers. It is overwritten by v = R⁻ᵀz.
	Z []float64
	// Priors is where p goes, columns numbers.
	Priors []float64
	// Square is q = ‖v‖².
	Square float64

	pass substitution
}

// substitution is what a forward substitution knows between two rows.
type substitution struct {
	// These are where the slices of the solution begin.
	data, z, priors *float64
	// v is the entry of the solution at hand. It is still when the entry of z was
	// 0: nothing is taken from the entries behind it.
	v     float64
	still int64
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
		s.Square = 0
		if order > 0 {
			s.pass = substitution{data: &s.Factor.data[0], z: &s.Z[0], priors: &s.Priors[0]}
			s.find(0)
		}
	}
	if order > 1 {
		substitute(solutions, order, columns)
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

// find computes entry i of the solution, and what needs no more than that.
func (s *Solution) find(i int) {
	z := s.Z[i]
	if z == 0 {
		s.pass.still = 1
		return
	}
	own := s.Factor.rowSlice(i)
	v := z / own[0]
	s.Z[i], s.pass.v, s.pass.still = v, v, 0
	s.Square += float64(v * v)
	for j, u := range own[len(own)-s.Factor.columns:] {
		s.Priors[j] += float64(v * u)
	}
}

// step takes entry i out of those behind it, and finds the next as soon as it can
// be. Entry i is not the last.
func (s *Solution) step(i int) {
	if s.pass.still != 0 {
		s.find(i + 1)
		return
	}
	own, z, v := s.Factor.rowSlice(i), s.Z[i:], s.pass.v
	z[1] += float64(-v * own[1])
	s.find(i + 1)
	loops.Axpy(z[2:], own[2:len(z)], -v)
}
