package qr

import (
	"math"

	"hindsight/internal/model/loops"
)

// panel is how many rows Absorb takes at a time.
const panel = loops.Panel

// AbsorbRoom is how many numbers of room Absorb wants for r features.
func AbsorbRoom(r int) int { return 2*r + 1 }

// Absorb is Rotate, to rounding, of an observation (z, y) whose v = R⁻ᵀz is known from
// Solve. All rotations are known before the first row is touched, and a pass takes the rows
// by fours. With t_0 = 1,
//
//	t_i² = t_{i−1}² + v_i²,  c_i = t_{i−1}/t_i,  g_i = v_i/(t_i t_{i−1})
//	[R u]_i ← c_i [R u]_i + g_i w,  w ← w − v_i [R u]_i of before,  w = [zᵀ yᵀ] at first
//
// AbsorbDiscounted has root [R u] and v/root in place of [R u] and v.
//
// The row of Rotate is w/t, with the same relative rounding.
//
// The row holds z and then y, r+k numbers, and is overwritten: its label part is left
// holding ε. It overwrites room, AbsorbRoom(r) numbers. It costs one pass over R, 3
// multiplications an entry, and allocates nothing. Entries up to 1e150 of factor, row and v
// cannot overflow.
//
// Source: Gill, Golub, Murray and Saunders, Methods for Modifying Matrix Factorizations
// (Mathematics of Computation 28, 1974), Method C1, in the form that Fletcher and Powell
// (1974) take where the diagonal grows much.
func (f *Factor) Absorb(row, v, room []float64) Rotation { return f.AbsorbDiscounted(row, v, room, 1) }

// AbsorbDiscounted multiplies the factor by root, and absorbs an observation whose v = R⁻ᵀz is known from Solve before the
// multiplication. It has the results of RotateDiscounted, to rounding.
func (f *Factor) AbsorbDiscounted(row, v, room []float64, root float64) Rotation {
	r := f.order
	if len(row) != r+f.columns || len(v) != r || len(room) != AbsorbRoom(r) {
		panic("qr: Absorb wants a row of order+columns numbers, a solution and its room")
	}
	squares, g := room[:r+1], room[r+1:]
	squares[0] = 1
	total, inverse := 0.0, 1/root // t² less 1, with all digits.
	for i, p := range v {
		p *= inverse
		total += float64(p * p)
		squares[i+1] = 1 + total
	}
	norm := math.Sqrt(squares[r])
	rotation := Rotation{Gamma: 1 / norm, Leverage: total / squares[r]}
	loops.Cosines(squares, g, v, root, inverse)
	full := r &^ (panel - 1)
	if full == 0 || !loops.AbsorbRows(f.data[f.row(0):], row, squares, g, v, f.diagonal, f.right, full, f.columns, root) {
		absorbGo(f, row, squares, g, v, full, root)
	}
	f.absorbLast(row, squares, g, v, full, root)
	for j := r; j < len(row); j++ {
		row[j] /= norm
	}
	return rotation
}

// absorbGo turns the first full rows, a multiple of panel.
func absorbGo(f *Factor, row, c, g, v []float64, full int, root float64) {
	for i := 0; i < full; i += panel {
		f.corner(row[i:], c, g, v, i, panel, root)
		w := row[i+panel:]
		r0, r1, r2, r3 := f.rowSlice(i)[4:], f.rowSlice(i + 1)[3:], f.rowSlice(i + 2)[2:], f.rowSlice(i + 3)[1:]
		r0, r1, r2, r3 = r0[:len(w)], r1[:len(w)], r2[:len(w)], r3[:len(w)]
		for j, x := range w {
			a := r0[j]
			r0[j] = float64(c[i]*a) + float64(g[i]*x)
			x -= float64(v[i] * a)
			a = r1[j]
			r1[j] = float64(c[i+1]*a) + float64(g[i+1]*x)
			x -= float64(v[i+1] * a)
			a = r2[j]
			r2[j] = float64(c[i+2]*a) + float64(g[i+2]*x)
			x -= float64(v[i+2] * a)
			a = r3[j]
			r3[j] = float64(c[i+3]*a) + float64(g[i+3]*x)
			w[j] = x - float64(v[i+3]*a)
		}
		for k := i; k < i+panel; k++ {
			f.copyRow(k, f.rowSlice(k))
		}
	}
}

// absorbLast turns the rows from full on, fewer than panel.
func (f *Factor) absorbLast(row, c, g, v []float64, full int, root float64) {
	f.corner(row[full:], c, g, v, full, len(row)-full, root)
	for k := full; k < f.order; k++ {
		f.copyRow(k, f.rowSlice(k))
	}
}

// corner turns the entries of a panel from row i on in so many columns.
func (f *Factor) corner(w, c, g, v []float64, i, columns int, root float64) {
	for k := i; k < min(i+panel, f.order); k++ {
		own := f.rowSlice(k)
		for j, x := range w[k-i : columns] {
			a := own[j]
			turned := float64(c[k]*a) + float64(g[k]*x)
			if least := float64(root * a); j == 0 && !(turned > least) { // A diagonal decreases by the discount alone.
				turned = least
			}
			own[j] = turned
			w[k-i+j] = x - float64(v[k]*a)
		}
	}
}
