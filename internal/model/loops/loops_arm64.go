//go:build !purego

package loops

// Every arm64 processor has NEON. The loops are documented in loops_amd64.go.

// shortest is the length of the shortest row that is worth the call.
const shortest = 4

// Rotate turns a pair of rows.
func Rotate(a, b []float64, ca, sa, c, s float64) {
	if len(a) < shortest {
		rotateGo(a, b, ca, sa, c, s)
		return
	}
	b = b[:len(a)]
	rotateNEON(&a[0], &b[0], len(a), ca, sa, c, s)
}

// Axpy adds a times x to y.
func Axpy(y, x []float64, a float64) {
	if len(y) < shortest {
		axpyGo(y, x, a)
		return
	}
	x = x[:len(y)]
	axpyNEON(&y[0], &x[0], len(y), a)
}

// Dot is x·y.
func Dot(x, y []float64) float64 {
	n := len(x) &^ 3
	if n == 0 {
		return dotGo(x, y)
	}
	y = y[:len(x)]
	return dotRest(dotNEON(&x[0], &y[0], n), x[n:], y[n:])
}

// Combine is y = Σ x_j C_j.
func Combine(y, columns, x []float64) {
	clear(y)
	for j, v := range x {
		Axpy(y, columns[j*len(y):], v)
	}
}

// TurnRows turns the rows of turns from first on.
func TurnRows(turns *Turn, stride uintptr, count, first, order, columns, start int) bool {
	turnNEON(turns, int(stride), count, first, order, columns, 8*start)
	return true
}

// SubstituteRows takes entries out of those behind them.
func SubstituteRows(solutions *Substitution, stride uintptr, count, order, columns int) bool {
	substituteNEON(solutions, int(stride), count, order, columns)
	return true
}

// Distances writes squared distances.
func Distances(dst, rows []float32, stride int, z, weights []float32) {
	n := len(dst) &^ 3
	if n > 0 && len(z) > 0 {
		_, _ = rows[(n-1)*stride:][len(z)-1], weights[len(z)-1]
		distancesNEON(&dst[0], &rows[0], n, stride, &z[0], &weights[0], len(z))
		dst, rows = dst[n:], rows[n*stride:]
	}
	distancesGo(dst, rows, stride, z, weights)
}

// rotateNEON is rotateGo of n entries.
//
//go:noescape
func rotateNEON(a, b *float64, n int, ca, sa, c, s float64)

// axpyNEON is axpyGo of n entries.
//
//go:noescape
func axpyNEON(y, x *float64, n int, a float64)

// dotNEON is dotGo of n entries, a multiple of 4 and not 0.
//
//go:noescape
func dotNEON(x, y *float64, n int) float64

// turnNEON is TurnRows, of the row that begins start bytes behind the data's beginning.
//
//go:noescape
func turnNEON(turns *Turn, stride, count, first, order, columns, start int)

// substituteNEON is SubstituteRows.
//
//go:noescape
func substituteNEON(solutions *Substitution, stride, count, order, columns int)

// distancesNEON is distancesGo of n rows, a multiple of 4, and order columns, a multiple of
// Lanes. Neither is 0.
//
//go:noescape
func distancesNEON(dst, rows *float32, n, stride int, z, weights *float32, order int)
