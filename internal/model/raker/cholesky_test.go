package raker_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/raker"
)

// The factor and the trace are those of gonum's dense routines, for orders
// about the sizes of the blocks, and pause is called.
func TestCholesky(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []int{1, 2, 63, 64, 65, 192, 257, 300, 450} {
		x := mat.NewDense(r, r+3, nil)
		for i := range x.RawMatrix().Data {
			x.RawMatrix().Data[i] = rng.NormFloat64()
		}
		var a mat.SymDense
		a.SymOuterK(1, x)
		var want mat.Cholesky
		if !want.Factorize(&a) {
			t.Fatalf("order %d is not positive definite", r)
		}
		var inverse mat.SymDense
		if err := want.InverseTo(&inverse); err != nil {
			t.Fatal(err)
		}
		var upper mat.TriDense
		want.UTo(&upper)
		pauses := 0
		full := blas64.Symmetric{N: r, Stride: r + 1, Data: make([]float64, r*(r+1)), Uplo: blas.Upper}
		for i := range r {
			for j := i; j < r; j++ {
				full.Data[i*full.Stride+j] = a.At(i, j)
			}
		}
		u, ok := raker.Cholesky(full, func() { pauses++ })
		if !ok {
			t.Fatalf("order %d: no factor", r)
		}
		for i := range r {
			for j := i; j < r; j++ {
				if got, want := u.Data[i*u.Stride+j], upper.At(i, j); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("order %d: U[%d,%d] = %g, want %g", r, i, j, got, want)
				}
			}
		}
		trace, exact := raker.TraceInverse(u, nil), inverse.Trace()
		if math.Abs(trace-exact) > 1e-6*exact {
			t.Errorf("order %d: Tr A⁻¹ = %g, want %g", r, trace, exact)
		}
		if r > 64 && pauses < r/64 {
			t.Errorf("order %d: %d pauses", r, pauses)
		}
	}
	indefinite := blas64.Symmetric{N: 100, Stride: 100, Data: make([]float64, 10_000), Uplo: blas.Upper}
	for i := range 100 {
		indefinite.Data[i*100+i] = 1
	}
	indefinite.Data[70*100+70] = -1
	if _, ok := raker.Cholesky(indefinite, nil); ok {
		t.Error("an indefinite matrix has a factor")
	}
}
