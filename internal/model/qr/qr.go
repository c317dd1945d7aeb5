// Package qr keeps the upper triangular factor of a growing regularised Gram
// matrix together with its rotated right-hand sides (QRD-RLS, the square-root
// information form):
//
//	A = λI + Σ z zᵀ = RᵀR,   u = R⁻ᵀ b,   b = Σ y z
//
// One observation is one pass of Givens rotations over R. Unlike a kept A⁻¹,
// which a downdate makes lose positive definiteness after enough rounds, R
// only ever gains, unless it is told to forget: its diagonal never decreases.
//
// Every product that is added to something is written float64(x*y), so that
// no compiler fuses the two and the same source gives the same bits on every
// target. The inner loops are those of package loops, which has assembly with the
// same bits.
package qr

import (
	"fmt"
	"math"

	"hindsight/internal/model/loops"
)

// Factor is R of order r with k label columns u, packed by rows: row i holds
// R[i,i..r-1] and then u[i,0..k-1], so that every inner loop runs over one
// contiguous slice. The zero value is not usable; call New.
type Factor struct {
	order, columns int
	data           []float64
	// diagonal and right are copies of R_ii and of u by rows, for those who read
	// nothing else: in data each of their entries is on a page of its own.
	diagonal, right []float64
}

// Size is the number of float64 of a factor of order r with k label columns:
// r(r+1)/2 + rk.
func Size(r, k int) int { return r*(r+1)/2 + r*k }

// New is the factor of λI with u = 0. It panics unless r ≥ 0, k ≥ 1 and
// λ > 0.
func New(r, k int, lambda float64) *Factor {
	if r < 0 || k < 1 || !(lambda > 0) {
		panic("qr: New wants r >= 0, k >= 1 and lambda > 0")
	}
	f := &Factor{order: r, columns: k, data: make([]float64, Size(r, k))}
	root := math.Sqrt(lambda)
	for i := range r {
		f.data[f.row(i)] = root
	}
	f.copyOut()
	return f
}

// copyOut makes the copies of diagonal and right-hand sides.
func (f *Factor) copyOut() {
	f.diagonal, f.right = make([]float64, f.order), make([]float64, f.order*f.columns)
	for i := range f.order {
		f.copyRow(i, f.rowSlice(i))
	}
}

func (f *Factor) copyRow(i int, row []float64) {
	f.diagonal[i] = row[0]
	copy(f.right[i*f.columns:(i+1)*f.columns], row[len(row)-f.columns:])
}

// FromPacked is the factor whose packed rows are data, which it takes over.
// It fails unless data has Size(r, k) entries of magnitude at most most, and
// the entries of the diagonal are at least least. It panics unless least > 0.
func FromPacked(r, k int, data []float64, least, most float64) (*Factor, error) {
	if !(least > 0) {
		panic("qr: FromPacked wants least > 0")
	}
	if r < 0 || k < 1 || len(data) != Size(r, k) {
		return nil, fmt.Errorf("qr: %d numbers for a factor of order %d with %d columns, want %d", len(data), r, k, Size(r, k))
	}
	f := &Factor{order: r, columns: k, data: data}
	for i := range r {
		row := f.rowSlice(i)
		if !(row[0] >= least) {
			return nil, fmt.Errorf("qr: diagonal entry %d is %g, want at least %g", i, row[0], least)
		}
		if err := within(row, most); err != nil {
			return nil, fmt.Errorf("qr: row %d: %w", i, err)
		}
	}
	f.copyOut()
	return f, nil
}

// within fails unless every magnitude is at most most.
func within(row []float64, most float64) error {
	for _, v := range row {
		if !(math.Abs(v) <= most) {
			return fmt.Errorf("an entry is %g, want a magnitude of at most %g", v, most)
		}
	}
	return nil
}

// Order is r, the number of features.
func (f *Factor) Order() int { return f.order }

// Columns is k, the number of label columns.
func (f *Factor) Columns() int { return f.columns }

// Packed is the factor's packed rows, not a copy: for encoding.
func (f *Factor) Packed() []float64 { return f.data }

// Right is u by rows, r·k numbers, to be read only.
func (f *Factor) Right() []float64 { return f.right }

// Diagonal is R_ii, r numbers, to be read only.
func (f *Factor) Diagonal() []float64 { return f.diagonal }

// row is the offset of row i in data.
func (f *Factor) row(i int) int { return i*(f.order+f.columns) - i*(i-1)/2 }

// rowSlice is row i: R[i,i..r-1], u[i,0..k-1].
func (f *Factor) rowSlice(i int) []float64 {
	start := f.row(i)
	return f.data[start : start+f.order-i+f.columns]
}

// Rotation is what one Rotate pass yields besides the new factor, in terms of
// q = zᵀA⁻¹z of the factor before.
type Rotation struct {
	// Gamma is γ = Π c_i = 1/sqrt(1+q).
	Gamma float64
	// Leverage is h = q/(1+q) = 1−γ², summed from the rotations' sines so
	// that a small one keeps all its digits.
	Leverage float64
}

// LogDet is log det A_t − log det A_{t−1} = log(1+q) = −2 log γ.
func (r Rotation) LogDet() float64 {
	if r.Leverage < 0.5 {
		return -math.Log1p(-r.Leverage)
	}
	return -2 * math.Log(r.Gamma)
}

// Rotate adds the observation (z, y): A ← A + zzᵀ, b ← b + y zᵀ, by
// appending the row [zᵀ yᵀ] below [R u] and annihilating it with r Givens
// rotations.
//
// The row holds z and then y, r+k numbers, and is overwritten: its label part
// is left holding ε, the last entries of the rotated row. For each label
// column it writes into p, k numbers, the prediction of before:
//
//	p  = zᵀA⁻¹b  the ridge prediction; γ²p is the AWV prediction, with z in A
//	ε  = γ(y−p)  by whose square the best loss in hindsight grows
//
// p = v·u with v = R⁻ᵀz, whose entry i is the i-th annihilated entry over
// R_ii and the cosines before it; it never meets y, so a large label cannot
// take digits from it, as p = y − ε/γ would let it.
//
// It costs one pass over R, 4 multiplications an entry, and allocates
// nothing. The row and p must not overlap. It panics when a length is wrong.
// Entries of row and factor of magnitude up to 1e150 cannot overflow.
//
// Source: QRD-RLS as in Haykin, Adaptive Filter Theory;
// Vovk's division by 1+q is PKAWV (HAL 2019) §3.
func (f *Factor) Rotate(row, p []float64) Rotation { return f.RotateDiscounted(row, p, 1) }

// RotateDiscounted is Rotate after [R u] was multiplied by root, in one pass:
// A ← root² A + zzᵀ, b ← root² b + y zᵀ. What it yields is in terms of the
// discounted factor; p is the same for both. A root of 1 is Rotate. It panics
// unless root is in (0, 1].
func (f *Factor) RotateDiscounted(row, p []float64, root float64) Rotation {
	turns := [1]Turn{{Factor: f, Row: row, Priors: p, Root: root}}
	RotateTogether(turns[:])
	return turns[0].Rotation
}

// Solve overwrites z, r numbers, by v = R⁻ᵀz and returns q = ‖v‖² = zᵀA⁻¹z.
// For each label column it writes p = v·u = zᵀA⁻¹b into p, k numbers.
// They must not overlap. It reads R once, r²/2 multiply-adds, and
// allocates nothing. It panics when a length is wrong.
func (f *Factor) Solve(z, p []float64) (q float64) {
	solutions := [1]Solution{{Factor: f, Z: z, Priors: p}}
	SolveTogether(solutions[:])
	return solutions[0].Square
}

// Weights writes g = R⁻¹u of one label column into dst, r numbers: the best
// ridge function in hindsight. It costs r²/2 multiply-adds. It panics when
// dst has the wrong length or there is no such column.
func (f *Factor) Weights(dst []float64, column int) {
	if len(dst) != f.order {
		panic("qr: Weights wants order numbers")
	}
	f.LeadingWeights(dst, column)
}

// LeadingWeights writes R[:m,:m]⁻¹u[:m] of one label column into dst, m numbers: the
// best ridge function in hindsight of the first m features alone. The first m rows and
// columns of R, and entries of u, are those of the factor of these features, bit for
// bit. It costs m²/2 multiply-adds. It panics when dst is longer than the order or there
// is no such column.
func (f *Factor) LeadingWeights(dst []float64, column int) {
	if len(dst) > f.order || column < 0 || column >= f.columns {
		panic("qr: LeadingWeights wants at most order numbers and an existing column")
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
// r − λ Tr A⁻¹. It costs r³/6 multiply-adds and a scratch of r numbers.
func (f *Factor) InverseNorm2() float64 {
	return f.TraceInverse(func(int) float64 { return 1 })
}

// TraceInverse is Tr ΛA⁻¹ for a diagonal Λ, at the cost of InverseNorm2.
func (f *Factor) TraceInverse(diagonal func(i int) float64) float64 {
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
	}
	return total
}

// Append grows the factor by one feature ψ, given its inner products with the
// features so far a = Σ φψ, r numbers, which it overwrites by w = R⁻ᵀa; its
// corner λ + Σψ²; and for each label column b = Σ ψy, which it overwrites by
// the new entry of u: by its square the best loss in hindsight falls.
//
//	ρ = sqrt(corner − ‖w‖²),  R ← [R w; 0 ρ],  u ← (u, (b − w·u)/ρ)
//
// In exact arithmetic corner − ‖w‖² ≥ λ; rounding below floor, which the
// caller knows (λ), is lifted to it. It costs O(r²) and reallocates as append
// does. It panics when a length is wrong or floor is not positive.
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
	f.data = append(f.data, make([]float64, Size(r+1, k)-Size(r, k))...)
	grown := &Factor{order: r + 1, columns: k, data: f.data}
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
	f.order++
	f.copyOut()
}
