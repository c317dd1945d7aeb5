//go:build !purego

package loops

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// wide reports whether to use registers of 512 bits. Processors without VBMI lower their clock for them.
func wide() bool { return cpu.X86.HasAVX512VBMI }

// shortest is the length of the shortest row that is worth the call.
const shortest = 4

// Rotate turns a pair of rows:
//
//	for j := range a { a[j], b[j] = ca*a[j] + s*b[j], c*b[j] - sa*a[j] }
func Rotate(a, b []float64, ca, sa, c, s float64) {
	if len(a) < shortest || !cpu.X86.HasAVX2 {
		rotateGo(a, b, ca, sa, c, s)
		return
	}
	b = b[:len(a)]
	rotateAVX2(&a[0], &b[0], len(a), ca, sa, c, s)
}

// Axpy adds a times x to y:
//
//	for j := range y { y[j] += a * x[j] }
func Axpy(y, x []float64, a float64) {
	if len(y) < shortest || !cpu.X86.HasAVX2 {
		axpyGo(y, x, a)
		return
	}
	x = x[:len(y)]
	axpyAVX2(&y[0], &x[0], len(y), a)
}

// Dot is x·y, summed in eight parts, so that the additions do not wait for one another,
// and then the rest. Both have the same length.
func Dot(x, y []float64) float64 {
	n := len(x) &^ 3
	if n == 0 || !cpu.X86.HasAVX2 {
		return dotGo(x, y)
	}
	y = y[:len(x)]
	return dotRest(dotAVX2(&x[0], &y[0], n), x[n:], y[n:])
}

// Scale multiplies x by a number.
func Scale(x []float64, by float64) {
	if n := len(x) &^ 3; n >= shortest && cpu.X86.HasAVX2 {
		scaleAVX2(&x[0], n, by)
		x = x[n:]
	}
	scaleGo(x, by)
}

// Combine is y = Σ x_j C_j, added up in the order of j, where columns holds the
// columns C_j one after the other, len(y) numbers each: a matrix-vector product.
func Combine(y, columns, x []float64) {
	n := len(y)
	if n < 4 || len(x) == 0 || !cpu.X86.HasAVX2 {
		combineGo(y, columns, x)
		return
	}
	columns = columns[:n*len(x)]
	combineAVX2(&y[0], &columns[0], &x[0], n&^3, n, len(x))
	if n&3 != 0 { // The last four, some of them once more.
		combineAVX2(&y[n-4], &columns[n-4], &x[0], 4, n, len(x))
	}
}

// Descend is one step of gradient descent, θ ← shrink θ − slope z. It returns
// the previous ‖θ‖², summed as in Dot.
func Descend(theta, z []float64, shrink, slope float64) float64 {
	n := len(theta) &^ 3
	if n == 0 || !cpu.X86.HasAVX2 {
		return descendGo(theta, z, shrink, slope)
	}
	z = z[:len(theta)]
	return descendRest(descendAVX2(&theta[0], &z[0], n, shrink, slope), theta[n:], z[n:], shrink, slope)
}

// AddSquares adds Σ w_n z_n z_nᵀ to a symmetric matrix, whose upper triangle packed holds by
// rows. Every entry gets its products (w_n z_ni) z_nj in the order of n: the bits are those
// of adding one row at a time. Row z_n is order numbers from rows[n·stride] on. Rows of them
// are added in one pass over the matrix.
func AddSquares(packed, rows []float64, stride, order int, weights []float64) {
	if len(weights) != Rows || order == 0 || !cpu.X86.HasAVX2 {
		addOneByOne(packed, rows, stride, order, weights)
		return
	}
	packed, rows = packed[:order*(order+1)/2], rows[:(Rows-1)*stride+order]
	addSquaresAVX2(&packed[0], &rows[0], stride, order, &weights[0])
}

// Cosines replaces the squares t_{i−1}² by root c_i, c_i = t_{i−1}/t_i, and writes inverse g_i, g_i = v_i/(t_i t_{i−1}).
// There is one more square than there are v.
func Cosines(squares, g, v []float64, root, inverse float64) {
	n := 0
	if cpu.X86.HasAVX2 {
		if n = len(v) &^ 3; n > 0 {
			cosinesAVX2(&squares[0], &g[0], &v[0], n, root, inverse, wide())
		}
	}
	cosinesGo(squares, g, v, root, inverse, n)
}

// TurnRows turns the rows of count turns from first on, whose rotations are known. Row first
// begins at number start of the data. The turns begin stride bytes apart. It does nothing
// and returns false if the processor has no AVX2: see qr.RotateTogether.
func TurnRows(turns *Turn, stride uintptr, count, first, order, columns, start int) bool {
	if cpu.X86.HasAVX2 {
		turnAVX2(turns, int(stride), count, first, order, columns, 8*start, wide())
	}
	return cpu.X86.HasAVX2
}

// TurnGroups turns row i of a factor by groups in order, up to the first group that is still. It
// returns how many have turned the row. Own is the row with its labels, right the copy of its
// labels. It does nothing if the processor has no AVX2: see qr.RotateSequence.
func TurnGroups(groups []Group, own []float64, i, order int, right, diagonal []float64) (done int) {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	bytes := turnGroupsAVX2(&groups[0], len(groups), &own[0], i, order, len(right), &right[0], &diagonal[0])
	return bytes / int(unsafe.Sizeof(groups[0]))
}

// SubstituteRows takes every entry of count solutions of an order above 1 out of those
// behind it. The first entry is known. The solutions begin stride bytes apart. It does
// nothing and returns false if the processor has no AVX2: see qr.SolveTogether.
func SubstituteRows(solutions *Substitution, stride uintptr, count, order, columns int) bool {
	if cpu.X86.HasAVX2 {
		substituteAVX2(solutions, int(stride), count, order, columns)
	}
	return cpu.X86.HasAVX2
}

// SubstituteAbreast writes v = R⁻ᵀz of Abreast solutions into z, and their priors and squares: see
// qr.SolveAbreast. Data begins with the first of order > 0 rows with columns > 0 labels. It does
// nothing and returns false if the processor has no AVX2.
func SubstituteAbreast(z, data, priors []float64, squares *[Abreast]float64, order, columns int) bool {
	switch {
	case wide():
		substituteAbreastAVX512(&z[0], &data[0], &priors[0], &squares[0], order, columns)
	case cpu.X86.HasAVX2:
		substituteAbreastAVX2(&z[0], &data[0], &priors[0], &squares[0], order, columns)
	}
	return cpu.X86.HasAVX2
}

// AbsorbRows turns the first full > 0 rows of a factor, a multiple of Panel. It does nothing and
// returns false if the processor has no AVX2: see qr.Factor.Absorb.
func AbsorbRows(data, row, c, gains, v, diagonal, right []float64, full, columns int, root float64) bool {
	if !cpu.X86.HasAVX2 {
		return false
	}
	absorbAVX2(&data[0], &row[0], &c[0], &gains[0], &v[0], &diagonal[0], &right[0], full, len(row), columns, root, wide())
	return true
}

// Distances writes the squared distances of rows to z,
//
//	for i := range rows { dst[i] = Σ_j weights[j] (row i[j] − z[j])² }
//
// in single precision and Lanes sums: sum k has the columns j with j mod Lanes = k in their
// order, and the sums are added pairwise, neighbours first. The rows are in blocks of Lanes rows of
// stride columns: a block has column 0 of its rows, then column 1 and so on. Distances returns the number
// of rows. The length of z is at most stride.
func Distances(dst, blocks []float32, stride int, z, weights []float32) (rows int) {
	rows = len(blocks) / stride
	if rows == 0 || len(z) == 0 || !cpu.X86.HasAVX2 {
		distancesGo(dst, blocks, stride, z, weights)
		return rows
	}
	_, _ = dst[rows-1], weights[len(z)-1]
	done := 0
	if even := rows / Lanes &^ 1; even > 0 && wide() {
		distancesAVX512(&dst[0], &blocks[0], even, stride, &z[0], &weights[0], len(z))
		done = even * Lanes
	}
	if done < rows {
		distancesAVX2(&dst[done], &blocks[done*stride], (rows-done)/Lanes, stride, &z[0], &weights[0], len(z))
	}
	return rows
}

// Reach returns the bits of a distance d. At least rows distances are at most d, for rows <= Shares. Share k has the
// distances k, k + Shares, k + 2 Shares …, and d is the rows-th smallest of the minima of the shares. With fewer than
// Shares distances Reach returns math.MaxUint32. Distances are not negative, so their bits have the same order.
func Reach(distances []float32, rows int) uint32 {
	if len(distances) < Shares || !cpu.X86.HasAVX2 {
		return reachGo(distances, rows)
	}
	return reachAVX2(&distances[0], len(distances)/Shares, rows)
}

// Collect writes a key for each distance whose bits are at most bound. The upper half of a key has these bits, the
// lower half the number of distances behind this one. Collect stops when keys has space for fewer than 2·Lanes more.
// It returns how many keys it wrote and how many distances it looked at.
func Collect(keys []uint64, distances []float32, bound uint32) (found, looked int) {
	if n := len(distances) &^ (2*Lanes - 1); n > 0 && len(keys) >= 2*Lanes && cpu.X86.HasAVX2 {
		if wide() {
			found, looked = collectAVX512(&keys[0], len(keys), &distances[0], n, len(distances)-1, bound)
		} else {
			found, looked = collectAVX2(&keys[0], len(keys), &distances[0], n, len(distances)-1, bound)
		}
	}
	more, rest := collectGo(keys[found:], distances[looked:], bound)
	return found + more, looked + rest
}

// Order writes the keys into dst in ascending order. The keys are below 2⁶³, and no two are equal. Order may
// overwrite the Lanes − 1 numbers behind dst and behind the keys.
func Order(dst, keys []uint64) {
	if len(keys) == 0 || !cpu.X86.HasAVX2 {
		orderGo(dst, keys)
		return
	}
	end := keys[len(keys) : len(keys)+Lanes-1]
	for i := range end {
		end[i] = math.MaxInt64
	}
	orderAVX2(&dst[:len(keys)][0], &keys[0], len(keys))
}

// rotateAVX2 is rotateGo of n entries.
//
//go:noescape
func rotateAVX2(a, b *float64, n int, ca, sa, c, s float64)

// axpyAVX2 is axpyGo of n entries.
//
//go:noescape
func axpyAVX2(y, x *float64, n int, a float64)

// dotAVX2 is dotGo of n entries, a multiple of 4 and not 0.
//
//go:noescape
func dotAVX2(x, y *float64, n int) float64

// scaleAVX2 is scaleGo of n entries, a multiple of 4 and not 0.
//
//go:noescape
func scaleAVX2(x *float64, n int, by float64)

// combineAVX2 is combineGo of n entries, a multiple of 4 and not 0, of d > 0
// columns, each of which begins stride numbers after the one before.
//
//go:noescape
func combineAVX2(y, columns, x *float64, n, stride, d int)

// descendAVX2 is descendGo of n entries, a multiple of 4 and not 0.
//
//go:noescape
func descendAVX2(theta, z *float64, n int, shrink, slope float64) float64

// addSquaresAVX2 is addOneByOne of eight rows of order > 0 numbers.
//
//go:noescape
func addSquaresAVX2(packed, rows *float64, stride, order int, weights *float64)

// cosinesAVX2 is cosinesGo of the first n > 0 entries, a multiple of 4.
//
//go:noescape
func cosinesAVX2(squares, gains, v *float64, n int, root, inverse float64, wide bool)

// turnAVX2 is TurnRows. Start is in bytes.
//
//go:noescape
func turnAVX2(turns *Turn, stride, count, first, order, columns, start int, wide bool)

// turnGroupsAVX2 is TurnGroups. It returns the size of the groups that have turned the row.
//
//go:noescape
func turnGroupsAVX2(groups *Group, count int, own *float64, i, order, columns int, right, diagonal *float64) (done int)

// substituteAVX2 is SubstituteRows.
//
//go:noescape
func substituteAVX2(solutions *Substitution, stride, count, order, columns int)

// substituteAbreastAVX2 and substituteAbreastAVX512 are SubstituteAbreast.
//
//go:noescape
func substituteAbreastAVX2(z, data, priors, squares *float64, order, columns int)

//go:noescape
func substituteAbreastAVX512(z, data, priors, squares *float64, order, columns int)

// absorbAVX2 is AbsorbRows of full > 0 rows, the first of which has entries numbers. If wide, it uses AVX-512.
//
//go:noescape
func absorbAVX2(data, row, c, gains, v, diagonal, right *float64, full, entries, columns int, root float64, wide bool)

// distancesAVX2 is distancesGo of count blocks, not 0, and columns > 0.
//
//go:noescape
func distancesAVX2(dst, blocks *float32, count, stride int, z, weights *float32, columns int)

// distancesAVX512 is distancesAVX2 of an even count.
//
//go:noescape
func distancesAVX512(dst, blocks *float32, count, stride int, z, weights *float32, columns int)

// reachAVX2 is reachGo of count > 0 times Shares distances.
//
//go:noescape
func reachAVX2(distances *float32, count, rows int) uint32

// collectAVX2 and collectAVX512 are Collect of n > 0 distances, a multiple of 2·Lanes. Behind the first one are last
// distances. There is space for 2·Lanes keys.
//
//go:noescape
func collectAVX2(keys *uint64, room int, distances *float32, n, last int, bound uint32) (found, looked int)

//go:noescape
func collectAVX512(keys *uint64, room int, distances *float32, n, last int, bound uint32) (found, looked int)

// orderAVX2 is Order of n keys, not 0.
//
//go:noescape
func orderAVX2(dst, keys *uint64, n int)
