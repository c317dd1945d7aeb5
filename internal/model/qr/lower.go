package qr

import (
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
)

// Lower is the Cholesky factor of a growing positive definite matrix K = LLᵀ,
// packed by rows: row i holds L[i,0..i]. Growing appends a row and leaves the
// others as they were. The zero value is the factor of the empty matrix.
type Lower struct {
	order int
	data  []float64
}

// LowerSize is the number of float64 of a factor of order m: m(m+1)/2.
func LowerSize(m int) int { return m * (m + 1) / 2 }

// Visit visits the packed rows of a factor of order m. A read takes memory only if all rows
// are there. It fails unless all entries are at most limit in magnitude and the entries of the
// diagonal at least lowest > 0; after a failure the factor is not usable.
func (l *Lower) Visit(v *codec.Visitor, m int, lowest, limit float64) {
	if v.Reading() {
		if v.Left() < 8*LowerSize(m) {
			v.Corrupt("qr: %d bytes for a triangle of order %d", v.Left(), m)
			return
		}
		l.order, l.data = m, make([]float64, LowerSize(m))
	}
	v.FloatsWithin(limit, l.data)
	if v.Reading() {
		diagonal := make([]float64, m)
		for i := range diagonal {
			diagonal[i] = l.Row(i)[i]
		}
		checkDiagonal(v, diagonal, lowest)
	}
}

// Order is m.
func (l *Lower) Order() int { return l.order }

// Row is row i up to and with the diagonal, not a copy.
func (l *Lower) Row(i int) []float64 { return l.data[LowerSize(i):LowerSize(i+1)] }

// Solve overwrites b, m numbers, by L⁻¹b and returns its square. It costs
// m²/2 multiply-adds and allocates nothing.
func (l *Lower) Solve(b []float64) (square float64) {
	if len(b) != l.order {
		panic("qr: Lower.Solve wants order numbers")
	}
	rest := l.data
	for i := range b {
		v := Next(rest[:i+1], b[:i], b[i])
		b[i] = v
		square += float64(v * v)
		rest = rest[i+1:]
	}
	return square
}

// Next is one step of the forward substitution, (b − row·solved)/diagonal, for a row of
// len(solved) entries and then the diagonal. A solution grown by Next has the bits of Solve.
func Next(row, solved []float64, b float64) float64 {
	diagonal := row[len(solved)]
	return (b - loops.Dot(row[:len(solved)], solved)) / diagonal
}

// Append adds the row (row, diagonal): K grows by the column Lrow and the
// corner ‖row‖² + diagonal². It panics unless row has order entries and the
// diagonal is positive.
func (l *Lower) Append(row []float64, diagonal float64) {
	if len(row) != l.order || !(diagonal > 0) {
		panic("qr: Lower.Append wants order numbers and a positive diagonal")
	}
	l.data = append(append(l.data, row...), diagonal)
	l.order++
}

// Clear empties the matrix, and keeps the memory for the next rows.
func (l *Lower) Clear() { l.order, l.data = 0, l.data[:0] }

// SolveTransposed overwrites b, m numbers, by L⁻ᵀb. It costs m²/2
// multiply-adds.
func (l *Lower) SolveTransposed(b []float64) {
	if len(b) != l.order {
		panic("qr: Lower.SolveTransposed wants order numbers")
	}
	for i := l.order - 1; i >= 0; i-- {
		row := l.Row(i)
		b[i] /= row[i]
		loops.Axpy(b[:i], row[:i], -b[i])
	}
}

// InverseNorm2 is ‖L⁻¹‖_F² = Tr K⁻¹. It costs m³/6 multiply-adds and m numbers. It calls
// pause, unless nil, after every m²/2 multiply-adds at most.
func (l *Lower) InverseNorm2(pause func()) float64 {
	total := 0.0
	v := make([]float64, l.order)
	for start := range l.order {
		clear(v)
		v[start] = 1
		for i := start; i < l.order; i++ {
			row := l.Row(i)
			v[i] = Next(row[start:], v[start:i], v[i])
			total += float64(v[i] * v[i])
		}
		if pause != nil {
			pause()
		}
	}
	return total
}
