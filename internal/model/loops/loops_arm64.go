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
