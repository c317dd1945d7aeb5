// Package qr holds triangular factors. Factor is the upper factor of least squares with its
// rotated right-hand sides (QRD-RLS, the square-root information form):
//
//	A = λI + Σ z zᵀ = RᵀR,   u = R⁻ᵀ b,   b = Σ y z
//
// An observation costs one pass of Givens rotations over R. A kept A⁻¹ loses positive
// definiteness after enough rounds. R only gains, unless it forgets: the diagonal never
// decreases, so that the condition of R stays below ‖R‖/√λ. Lower is the lower factor of a
// Gram matrix that grows by appended rows. The two differ in their layout: Factor turns
// whole rows of R, Lower appends columns of R.
//
// Every product that is added is written float64(x*y), so that no compiler fuses the two
// and the source gives the same bits on every target. Slices of an argument must not overlap
// the entries of another or of the factor. A wrong length is a panic.
package qr

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/loops"
)

// Factor is R of order r with k label columns u, by rows: row i holds R[i,i..r-1] and then
// u[i,0..k-1], and ends at the end of a cache line, as a row of NewRow does. The zero value is
// not usable; call New.
type Factor struct {
	order, columns int
	data           []float64
	// diagonal and right are copies of R_ii and of the rows of u. In data each of their
	// entries is on a page of its own.
	diagonal, right []float64
}

// Bytes is the memory of a factor of order r with k label columns: rows of whole cache lines, the line that aligns
// them, and the copies. Append reserves up to a quarter more.
func Bytes(r, k int) uint64 { return BytesOfAll([]int{r}, k) }

// BytesOfAll is the memory of the factors of NewAll.
func BytesOfAll(orders []int, k int) (bytes uint64) {
	rooms := loops.Line - 1
	for _, r := range orders {
		rooms += room(r, k)
		bytes += heap(r) + heap(r*k)
	}
	return bytes + heap(rooms)
}

// heap is the memory of n numbers, in whole pages of Go's heap above 32 KB.
func heap(n int) uint64 {
	const page = 8 << 10
	size := 8 * uint64(n)
	if size > 4*page {
		size = (size + page - 1) &^ (page - 1)
	}
	return size
}

// MaxEntry bounds the magnitude of an entry in a state. A column of R has the length √A_ii
// and u at most √(Σy²), which the bounds of inputs, labels, weights and rounds keep below
// 1e113, or 1e115 for the steps of a curved loss. Entries up to 1e150 cannot overflow.
const MaxEntry = 1e130

// New is the factor of λI with u = 0. It panics unless r ≥ 0, k ≥ 1 and
// λ > 0.
func New(r, k int, lambda float64) *Factor { return NewAll([]int{r}, k, lambda)[0] }

// NewAll returns factors of several orders as New does. The rows of all are one allocation, because the heap rounds
// each up to whole pages.
func NewAll(orders []int, k int, lambda float64) (all []*Factor) {
	rooms := 0
	for _, r := range orders {
		if r < 0 || k < 1 || !(lambda > 0) {
			panic("qr: New wants r >= 0, k >= 1 and lambda > 0")
		}
		rooms += room(r, k)
	}
	data := NewRow(rooms)
	for _, r := range orders {
		size := room(r, k)
		f := &Factor{order: r, columns: k, data: data[:size:size]}
		data = data[size:]
		for i := range r {
			f.data[f.row(i)] = math.Sqrt(lambda)
		}
		f.copyOut()
		all = append(all, f)
	}
	return all
}

func (f *Factor) copyOut() {
	f.diagonal, f.right = make([]float64, f.order), make([]float64, f.order*f.columns)
	for i, row := range f.rows {
		f.copyRow(i, row)
	}
}

func (f *Factor) copyRow(i int, row []float64) {
	f.diagonal[i] = row[0]
	copy(f.right[i*f.columns:(i+1)*f.columns], row[len(row)-f.columns:])
}

// Clone returns a copy.
func (f *Factor) Clone() *Factor {
	c := &Factor{order: f.order, columns: f.columns, data: NewRow(len(f.data))}
	copy(c.data, f.data)
	c.copyOut()
	return c
}

// Visit visits the packed rows. A read fails unless all entries are at most limit in
// magnitude and the diagonal entries are at least lowest > 0; after a failure the factor is not
// usable.
func (f *Factor) Visit(v *codec.Visitor, lowest, limit float64) {
	for _, row := range f.rows {
		v.FloatsWithin(limit, row)
	}
	if !v.Reading() {
		return
	}
	f.copyOut()
	checkDiagonal(v, f.diagonal, lowest)
}

func checkDiagonal(v *codec.Visitor, diagonal []float64, lowest float64) {
	if !(lowest > 0) {
		panic("qr: Visit wants lowest > 0")
	}
	for i, d := range diagonal {
		if !(d >= lowest) {
			v.Corrupt("qr: diagonal entry %d is %g, want at least %g", i, d, lowest)
		}
	}
}

// Order is r, the number of features.
func (f *Factor) Order() int { return f.order }

// Columns is k, the number of label columns.
func (f *Factor) Columns() int { return f.columns }

// Right is u by rows, r·k numbers, to be read only.
func (f *Factor) Right() []float64 { return f.right }

// Diagonal is R_ii, r numbers, to be read only.
func (f *Factor) Diagonal() []float64 { return f.diagonal }

// Feature returns the mean and the deviation of feature j ≥ 1 over the absorbed rows and the ridge, where feature 0 of
// each row is 1: R_0j/R_00 and √(Σ_{0<i≤j} R_ij²)/R_00. It costs O(j).
func (f *Factor) Feature(j int) (mean, deviation float64) {
	square := 0.0
	for i := 1; i <= j; i++ {
		r := f.rowSlice(i)[j-i]
		square += float64(r * r)
	}
	r := f.diagonal[0]
	return f.rowSlice(0)[j] / r, math.Sqrt(square) / r
}

// lines is the room of rows of 1 to n numbers.
func lines(n int) int {
	full := n &^ (loops.Line - 1)
	return (full + loops.Line) * (n - full>>1)
}

// room is the length of data of a factor of order r with k label columns.
func room(r, k int) int { return lines(r+k) - lines(k) }

func (f *Factor) end(i int) int {
	n := f.order + f.columns
	return lines(n) - lines(n-i-1)
}

func (f *Factor) row(i int) int { return f.end(i) - (f.order - i + f.columns) }

// rowSlice is row i: R[i,i..r-1], u[i,0..k-1].
func (f *Factor) rowSlice(i int) []float64 {
	end := f.end(i)
	return f.data[end-(f.order-i+f.columns) : end]
}

func (f *Factor) rows(yield func(i int, row []float64) bool) {
	rest := f.data
	for i := range f.order {
		n := f.order - i + f.columns
		end := (n + loops.Line - 1) &^ (loops.Line - 1)
		if !yield(i, rest[end-n:end]) {
			return
		}
		rest = rest[end:]
	}
}

// Rotation is what a Rotate pass yields besides the new factor, in terms of
// q = zᵀA⁻¹z of the previous factor.
type Rotation struct {
	// Gamma is γ = Π c_i = 1/sqrt(1+q).
	Gamma float64
	// Leverage is h = q/(1+q) = 1−γ², summed from the sines, so that a small h keeps
	// all its digits.
	Leverage float64
}

// Rotate adds the observation (z, y): A ← A + zzᵀ, b ← b + y zᵀ, by appending the row
// [zᵀ yᵀ] below [R u] and annihilating it with r Givens rotations.
//
// The row holds z and then y, r+k numbers, and is overwritten: its label part is left
// holding ε, the last entries of the rotated row. Rotate writes the previous prediction for
// each label column into p, k numbers:
//
//	p  = zᵀA⁻¹b  the ridge prediction; γ²p is the AWV prediction, with z in A
//	ε  = γ(y−p)  by whose square the best loss in hindsight grows
//
// p = v·u with v = R⁻ᵀz, whose entry i is the i-th annihilated entry over
// R_ii and the cosines before it. A large label takes no digits from p, because y is not
// part of it, as it would be of p = y − ε/γ.
//
// It costs one pass over R, 4 multiplications an entry, and allocates nothing. Entries of
// row and factor up to 1e150 cannot overflow.
//
// Source: QRD-RLS as in Haykin, Adaptive Filter Theory;
// Vovk's division by 1+q is PKAWV (HAL 2019) §3.
func (f *Factor) Rotate(row, p []float64) Rotation { return f.RotateDiscounted(row, p, 1) }

// RotateDiscounted is Rotate after multiplying [R u] by root, in one pass:
// A ← root² A + zzᵀ, b ← root² b + y zᵀ. Rotation and ε are in terms of the
// discounted factor; p is the same for both. It panics unless root is in (0, 1].
func (f *Factor) RotateDiscounted(row, p []float64, root float64) Rotation {
	turns := [1]Turn{{Factor: f, Row: row, Priors: p, Root: root}}
	RotateTogether(turns[:])
	return turns[0].Rotation
}

// Solve overwrites z, r numbers, by v = R⁻ᵀz and returns q = ‖v‖² = zᵀA⁻¹z.
// For each label column it writes p = v·u = zᵀA⁻¹b into p, k numbers.
// It reads R once, r²/2 multiply-adds, and allocates nothing.
func (f *Factor) Solve(z, p []float64) (q float64) {
	solutions := [1]Solution{{Factor: f, Z: z, Priors: p}}
	SolveTogether(solutions[:])
	return solutions[0].Square
}

// Weights writes R[:m,:m]⁻¹u[:m] of one label column into dst, m numbers: the best
// ridge function in hindsight of the first m features alone. The first m rows and columns
// of R, and entries of u, equal R and u of the factor of these features, bit for bit. It costs
// m²/2 multiply-adds. It panics if dst is longer than the order or the column does not exist.
func (f *Factor) Weights(dst []float64, column int) {
	if len(dst) > f.order || column < 0 || column >= f.columns {
		panic("qr: Weights wants at most order numbers and an existing column")
	}
	for i := len(dst) - 1; i >= 0; i-- {
		row := f.rowSlice(i)
		sum := row[f.order-i+column]
		for j, g := range dst[i+1:] {
			sum -= float64(row[1+j] * g)
		}
		dst[i] = sum / row[0]
	}
}

// Explained is ‖u‖² of one label column, what the best ridge function in hindsight explains
// of Σy². It costs r multiply-adds.
func (f *Factor) Explained(column int) float64 {
	var total compensated.Sum
	for i := column; i < len(f.right); i += f.columns {
		total.Add(float64(f.right[i] * f.right[i]))
	}
	return total.Value()
}

// LogDet is log det(A/λ) = Σ 2 log(R_ii/√λ), from the diagonal alone, so that
// it never drifts. It costs r logarithms.
func (f *Factor) LogDet(lambda float64) float64 {
	root, sum := math.Sqrt(lambda), 0.0
	for _, d := range f.diagonal {
		sum += 2 * math.Log(d/root)
	}
	return sum
}

// InverseNorm2 is ‖R⁻¹‖_F² = Tr A⁻¹, from which the effective dimension is
// r − λ Tr A⁻¹. It costs r³/6 multiply-adds and r numbers. It calls pause, unless nil,
// after every r²/2 multiply-adds at most.
func (f *Factor) InverseNorm2(pause func()) float64 {
	return f.TraceInverse(func(int) float64 { return 1 }, pause)
}

// TraceInverse is Tr ΛA⁻¹ for a diagonal Λ, at the cost of InverseNorm2.
func (f *Factor) TraceInverse(diagonal func(i int) float64, pause func()) float64 {
	total := 0.0
	v := make([]float64, f.order)
	for start := range f.order {
		// Column `start` of R⁻ᵀ: forward substitution of a unit vector.
		clear(v)
		v[start] = 1
		weight := diagonal(start)
		for i := start; i < f.order; i++ {
			row := f.rowSlice(i)
			v[i] /= row[0]
			total += float64(weight * float64(v[i]*v[i]))
			loops.Axpy(v[i+1:], row[1:f.order-i], -v[i])
		}
		if pause != nil {
			pause()
		}
	}
	return total
}

// Append grows the factor by one feature ψ, given its inner products with the existing
// features a = Σ φψ, r numbers, which it overwrites by w = R⁻ᵀa; its
// corner λ + Σψ²; and for each label column b = Σ ψy, which it overwrites by
// the new entry of u. The best loss in hindsight falls by the square of that entry.
//
//	ρ = sqrt(corner − ‖w‖²),  R ← [R w; 0 ρ],  u ← (u, (b − w·u)/ρ)
//
// In exact arithmetic corner − ‖w‖² ≥ λ; a smaller value is rounding and becomes floor,
// which is λ. It costs O(r²) and reallocates as append does. It panics if floor is not
// positive.
//
// Source: the bordered Cholesky factor; PKAWV-Nyström (NeurIPS 2019) adds
// features so.
func (f *Factor) Append(a []float64, corner float64, b []float64, floor float64) {
	if len(a) != f.order || len(b) != f.columns || !(floor > 0) {
		panic("qr: Append wants order inner products, columns right-hand sides and a positive floor")
	}
	dots := make([]float64, f.columns)
	square := corner - f.Solve(a, dots)
	if !(square > floor) { // NaN too.
		square = floor
	}
	rho := math.Sqrt(square)
	r, k := f.order, f.columns
	grown := &Factor{order: r + 1, columns: k, data: f.data}
	if size := room(r+1, k); size <= cap(f.data) {
		grown.data = f.data[:size]
	} else {
		grown.data = NewRow((size + size/4) &^ (loops.Line - 1))[:size]
	}
	last := grown.rowSlice(r)
	last[0] = rho
	for j := range b {
		b[j] = (b[j] - dots[j]) / rho
		last[1+j] = b[j]
	}
	// Backwards, so that every row moves before it is overwritten.
	for i := r - 1; i >= 0; i-- {
		from, to := f.rowSlice(i), grown.rowSlice(i)
		copy(to[len(from)+1-k:], from[len(from)-k:])
		copy(to, from[:len(from)-k])
		to[len(from)-k] = a[i]
	}
	grown.copyOut()
	*f = *grown
}

// AddColumn adds a last label column with u = 0. While its labels are 0, a column of zeros
// stays 0 in every bit and touches no other entry: a late column has the bits of one from
// the start. It copies the factor once. Rotate and Solve then want rows and predictions of
// one more column.
func (f *Factor) AddColumn() {
	k := f.columns
	grown := &Factor{order: f.order, columns: k + 1, data: NewRow(room(f.order, k+1))}
	for i, row := range f.rows {
		copy(grown.rowSlice(i), row)
	}
	grown.copyOut()
	*f = *grown
}

// Shift moves the right-hand side of one label column along v, order numbers:
//
//	u_c ← u_c − by·v
//
// With v = R⁻ᵀz that is b ← b − by·z: the weights w = A⁻¹b move by −by·A⁻¹z, and so
// does their value at z by −by·‖v‖². R stays as it is. It costs order multiply-adds
// and allocates nothing. It panics if the column does not exist.
//
// Source: the oblique projection of the online Newton step, KONS (ICML 2017), §3.
func (f *Factor) Shift(v []float64, by float64, column int) {
	if len(v) != f.order || column < 0 || column >= f.columns {
		panic("qr: Shift wants order numbers and an existing column")
	}
	for i, row := range f.rows {
		at := &row[len(row)-f.columns+column]
		*at -= float64(by * v[i])
		f.right[i*f.columns+column] = *at
	}
}

// Reset replaces the rows of R from row n on by root·I and keeps Rᵀu: of A it replaces the
// Schur complement of the first n features by root² I. It costs r²/2 multiply-adds a label
// column. It panics unless 0 <= n <= order and root > 0.
func (f *Factor) Reset(n int, root float64) {
	if n < 0 || n > f.order || !(root > 0) {
		panic("qr: Reset wants a row of R and a positive root")
	}
	product := make([]float64, (f.order-n)*f.columns)
	for i := n; i < f.order; i++ {
		row := f.rowSlice(i)
		for c, u := range row[f.order-i:] {
			for j, v := range row[:f.order-i] {
				product[(i-n+j)*f.columns+c] += float64(u * v)
			}
		}
	}
	for i := n; i < f.order; i++ {
		row := f.rowSlice(i)
		clear(row)
		row[0] = root
		for c, v := range product[(i-n)*f.columns:][:f.columns] {
			row[f.order-i+c] = v / root
		}
		f.copyRow(i, row)
	}
}

// Renew forgets what the observations say of feature j and keeps what they say of the others: A
// becomes the Schur complement of A_jj, with root² in place of A_jj and 0 beside it. The prediction
// of any row without feature j stays as it was. It costs 2j(r + k) multiplications. It panics unless the
// feature exists and root > 0.
//
// Row j of R is rotated against the rows above it, from below, until it alone has column j; then
// it holds all that is known of the feature.
func (f *Factor) Renew(j int, root float64) {
	if j < 0 || j >= f.order || !(root > 0) {
		panic("qr: Renew wants an existing feature and a positive root")
	}
	n := f.order + f.columns
	low, last := make([]float64, n), f.rowSlice(j)
	copy(low[j:], last)
	for i := j - 1; i >= 0; i-- {
		row := f.rowSlice(i)
		a, b := row[j-i], low[j]
		if a == 0 {
			continue
		}
		h := math.Sqrt(float64(a*a) + float64(b*b))
		c, s := b/h, a/h
		for at, v := range row {
			u := low[i+at]
			low[i+at] = float64(c*u) + float64(s*v)
			row[at] = float64(c*v) - float64(s*u)
		}
		row[j-i], low[j] = 0, h
		f.copyRow(i, row)
	}
	clear(last)
	last[0] = root
	f.copyRow(j, last)
}

// RowNorm2 is ‖R_i‖², without u.
func (f *Factor) RowNorm2(i int) (sum float64) {
	for _, v := range f.rowSlice(i)[:f.order-i] {
		sum += float64(v * v)
	}
	return sum
}
