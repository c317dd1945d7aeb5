package qr

import (
	"fmt"
	"math"

	"hindsight/internal/model/loops"
)

// Cholesky is the factor RᵀR = A of a positive definite matrix of order r, with k label
// columns u = 0: see SetLabels. The upper triangle of A is packed by rows in gram,
// r(r+1)/2 numbers, which are overwritten. It costs r³/6 multiply-adds and calls pause,
// unless nil, after every 4r² of them at most. It fails if A is not positive definite to
// working precision.
//
// Source: Golub and Van Loan, Matrix Computations, §4.2.9, by panels of loops.Rows rows.
func Cholesky(r, k int, gram []float64, pause func()) (*Factor, error) {
	f := New(r, k, 1)
	if len(gram) != r*(r+1)/2 {
		panic("qr: Cholesky wants the upper triangle of a matrix")
	}
	minusOnes := make([]float64, loops.Rows)
	for n := range minusOnes {
		minusOnes[n] = -1
	}
	tails := make([]float64, loops.Rows*r)
	for i := 0; i < r; i += loops.Rows {
		n := min(loops.Rows, r-i)
		order := r - i - n // Of what is left behind the panel.
		for j := i; j < i+n; j++ {
			row := gram[:r-j]
			root := math.Sqrt(row[0])
			if !(root > 0) {
				return nil, fmt.Errorf("qr: entry %d of the diagonal is the square of %g", j, root)
			}
			for m := range row {
				row[m] /= root
			}
			copy(f.rowSlice(j), row)
			copy(tails[(j-i)*order:], row[len(row)-order:])
			gram = gram[r-j:]
			rest := gram
			for m := 1; m < i+n-j; m++ {
				loops.Axpy(rest[:len(row)-m], row[m:], -row[m])
				rest = rest[len(row)-m:]
			}
		}
		loops.AddSquares(gram, tails, order, order, minusOnes[:n])
		if pause != nil {
			pause()
		}
	}
	f.copyOut()
	return f, nil
}

// SetLabels sets u = R⁻ᵀb for one label column and returns ‖u‖² = bᵀA⁻¹b. It overwrites b, r
// numbers, by u. It costs r²/2 multiply-adds.
func (f *Factor) SetLabels(b []float64, column int) float64 {
	square := f.Solve(b, make([]float64, f.columns))
	for i, row := range f.rows {
		row[len(row)-f.columns+column], f.right[i*f.columns+column] = b[i], b[i]
	}
	return square
}
