//go:build !purego

package qr

import "golang.org/x/sys/cpu"

// turn is turnGo, four entries at a time where the processor can.
func turn(turns []Turn, first, order, columns int) {
	if !cpu.X86.HasAVX2 {
		turnGo(turns, first, order)
		return
	}
	turnAVX2(&turns[0], len(turns), first, order, columns, 8*turns[0].Factor.row(first))
}

// substitute is substituteGo, four entries at a time where the processor can.
func substitute(solutions []Solution, order, columns int) {
	if !cpu.X86.HasAVX2 {
		substituteGo(solutions, order)
		return
	}
	substituteAVX2(&solutions[0], len(solutions), order, columns)
}

// turnAVX2 is turnGo of count turns. Row first begins at byte start of the data.
//
//go:noescape
func turnAVX2(turns *Turn, count, first, order, columns, start int)

// substituteAVX2 is substituteGo of count solutions, of an order above 1.
//
//go:noescape
func substituteAVX2(solutions *Solution, count, order, columns int)

// cosines is cosinesGo of every entry, four at a time where the processor can.
func cosines(squares, g, v []float64) {
	n := 0
	if cpu.X86.HasAVX2 {
		if n = len(v) &^ (panel - 1); n > 0 {
			cosinesAVX2(&squares[0], &g[0], &v[0], n)
		}
	}
	cosinesGo(squares, g, v, n)
}

// cosinesAVX2 is cosinesGo of the first n > 0 entries, a multiple of 4.
//
//go:noescape
func cosinesAVX2(squares, gains, v *float64, n int)

// absorb is absorbGo, four entries at a time where the processor can.
func absorb(f *Factor, row, c, g, v []float64, full int) {
	if !cpu.X86.HasAVX2 || full == 0 {
		absorbGo(f, row, c, g, v, full)
		return
	}
	absorbAVX2(&f.data[0], &row[0], &c[0], &g[0], &v[0], &f.diagonal[0], &f.right[0], full, len(row), f.columns)
}

// absorbAVX2 is absorbGo of full > 0 rows, the first of so many entries.
//
//go:noescape
func absorbAVX2(data, row, c, gains, v, diagonal, right *float64, full, entries, columns int)
