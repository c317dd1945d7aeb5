package qr

import (
	"fmt"

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

// LowerFromPacked is the factor whose packed rows are data, which it takes
// over. It fails unless there are LowerSize(m) entries of magnitude at most
// most, and the entries of the diagonal are at least least. It panics unless
// least > 0.
func LowerFromPacked(m int, data []float64, least, most float64) (*Lower, error) {
	if !(least > 0) {
		panic("qr: LowerFromPacked wants least > 0")
	}
	if m < 0 || len(data) != LowerSize(m) {
		return nil, fmt.Errorf("qr: %d numbers for a triangle of order %d, want %d", len(data), m, LowerSize(m))
	}
	if err := within(data, most); err != nil {
		return nil, fmt.Errorf("qr: triangle: %w", err)
	}
	for i := range m {
		if d := data[LowerSize(i+1)-1]; !(d >= least) {
			return nil, fmt.Errorf("qr: diagonal entry %d is %g, want at least %g", i, d, least)
		}
	}
	return &Lower{order: m, data: data}, nil
}

// Order is m.
func (l *Lower) Order() int { return l.order }

// Packed is the factor's packed rows, not a copy: for encoding.
func (l *Lower) Packed() []float64 { return l.data }

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

// Next is one step of the forward substitution: (b − row·solved)/diagonal,
// row being len(solved) entries and then the diagonal. Solve is made of it, so
// that a solution grown a coordinate at a time is Solve's bit for bit.
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

// InverseNorm2 is ‖L⁻¹‖_F² = Tr K⁻¹. It costs m³/6 multiply-adds and a
// scratch of m numbers.
func (l *Lower) InverseNorm2() float64 {
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
	}
	return total
}
