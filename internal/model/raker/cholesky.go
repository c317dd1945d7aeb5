package raker

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

const (
	// A factorization works on blocks of rowBlock by columnBlock numbers. Products
	// of blocks of these sizes are computed by the caller's goroutine: gonum would
	// spread larger ones over all processors.
	rowBlock    = 64
	columnBlock = 192
)

// cholesky replaces the upper triangle of a positive definite matrix A, of
// order r, by U with A = UᵀU, at r³/3 multiply-adds. What is below the diagonal
// may be overwritten. It calls pause, unless that is nil, about every 10⁵ to 10⁶
// multiply-adds. It fails when A is not positive definite, and has then
// overwritten a part of A.
//
// It is the right-looking blocked factorization: with A split behind its first
// rowBlock rows,
//
//	U₁₁ᵀU₁₁ = A₁₁,  U₁₂ = U₁₁⁻ᵀA₁₂,  A₂₂ ← A₂₂ − U₁₂ᵀU₁₂
//
// Source: Golub and Van Loan, Matrix Computations, §4.2.9.
func cholesky(a blas64.Symmetric, pause func()) (blas64.Triangular, bool) {
	block := func(i, j, rows, columns int) blas64.General {
		return blas64.General{Rows: rows, Cols: columns, Stride: a.Stride, Data: a.Data[i*a.Stride+j:]}
	}
	for k := 0; k < a.N; k += rowBlock {
		n := min(rowBlock, a.N-k)
		corner := blas64.Symmetric{N: n, Stride: a.Stride, Data: a.Data[k*a.Stride+k:], Uplo: blas.Upper}
		factor, ok := lapack64.Potrf(corner)
		if !ok {
			return blas64.Triangular{}, false
		}
		for j := k + n; j < a.N; j += columnBlock {
			blas64.Trsm(blas.Left, blas.Trans, 1, factor, block(k, j, n, min(columnBlock, a.N-j)))
			rest(pause)
		}
		for i := k + n; i < a.N; i += rowBlock {
			rows := min(rowBlock, a.N-i)
			left := block(k, i, n, rows)
			for j := i; j < a.N; j += columnBlock {
				columns := min(columnBlock, a.N-j)
				blas64.Gemm(blas.Trans, blas.NoTrans, -1, left, block(k, j, n, columns), 1, block(i, j, rows, columns))
				rest(pause)
			}
		}
	}
	return blas64.Triangular{N: a.N, Stride: a.Stride, Data: a.Data, Uplo: blas.Upper, Diag: blas.NonUnit}, true
}

// traceInverse is Tr A⁻¹ = ‖U⁻¹‖_F² of A = UᵀU, at about r³/6 multiply-adds: the
// rows of U⁻ᵀ are solved for, rowBlock columns of it at a time, each from where
// it begins. It calls pause as cholesky does.
func traceInverse(u blas64.Triangular, pause func()) float64 {
	trace := 0.0
	columns := make([]float64, u.N*rowBlock)
	for k := 0; k < u.N; k += rowBlock {
		n := min(rowBlock, u.N-k)
		solved := blas64.General{Rows: u.N - k, Cols: n, Stride: n, Data: columns[:(u.N-k)*n]}
		clear(solved.Data)
		for i := range n {
			solved.Data[i*n+i] = 1
		}
		tail := blas64.Triangular{N: u.N - k, Stride: u.Stride, Data: u.Data[k*u.Stride+k:], Uplo: blas.Upper, Diag: blas.NonUnit}
		blas64.Trsm(blas.Left, blas.Trans, 1, tail, solved)
		for _, v := range solved.Data {
			trace += float64(v * v)
		}
		rest(pause)
	}
	return trace
}

// rest calls pause if there is one.
func rest(pause func()) {
	if pause != nil {
		pause()
	}
}
