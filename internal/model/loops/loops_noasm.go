//go:build !amd64 || purego

package loops

// Rotate turns a pair of rows:
//
//	for j := range a { a[j], b[j] = ca*a[j] + s*b[j], c*b[j] - sa*a[j] }
func Rotate(a, b []float64, ca, sa, c, s float64) { rotateGo(a, b, ca, sa, c, s) }

// Axpy adds a times x to y:
//
//	for j := range y { y[j] += a * x[j] }
func Axpy(y, x []float64, a float64) { axpyGo(y, x, a) }

// Dot is x·y, summed in eight parts, so that the additions need not wait for
// one another, and the rest behind them. Both have the same length.
func Dot(x, y []float64) float64 { return dotGo(x, y) }

// Scale multiplies x by a number.
func Scale(x []float64, by float64) { scaleGo(x, by) }

// Combine is y = Σ x_j C_j, added up in the order of j, where columns holds the
// columns C_j one after the other, len(y) numbers each: a matrix-vector product.
func Combine(y, columns, x []float64) { combineGo(y, columns, x) }

// Descend is one step of gradient descent, θ ← shrink θ − slope z. It returns
// ‖θ‖² of before, summed as Dot sums.
func Descend(theta, z []float64, shrink, slope float64) float64 {
	return descendGo(theta, z, shrink, slope)
}

// AddSquares adds Σ w_n z_n z_nᵀ to a symmetric matrix, of which packed holds
// the upper triangle by rows, row n after row n−1: every entry gets its products
// (w_n z_ni) z_nj in the order of n, so that it has the bits that adding the rows
// one by one gives. Row z_n is order numbers from rows[n·stride] on.
func AddSquares(packed, rows []float64, stride, order int, weights []float64) {
	addOneByOne(packed, rows, stride, order, weights)
}
