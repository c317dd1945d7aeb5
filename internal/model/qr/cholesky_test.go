package qr_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/qr"
)

// The factor, the labels and the trace are those of gonum's dense routines, for orders
// about the sizes of the panels, and pause is called.
func TestCholesky(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []int{0, 1, 2, 7, 8, 9, 16, 63, 64, 65, 192, 257, 450} {
		a, gram := mat.NewSymDense(max(r, 1), nil), make([]float64, 0, r*(r+1)/2)
		if r > 0 {
			x := mat.NewDense(r, r+3, nil)
			for i := range x.RawMatrix().Data {
				x.RawMatrix().Data[i] = rng.NormFloat64()
			}
			a.SymOuterK(1, x)
		} else {
			a.SetSym(0, 0, 1)
		}
		for i := range r {
			for j := i; j < r; j++ {
				gram = append(gram, a.At(i, j))
			}
		}
		var want mat.Cholesky
		require.True(t, want.Factorize(a), "order %d is not positive definite", r)
		var inverse mat.SymDense
		require.NoError(t, want.InverseTo(&inverse))
		var upper mat.TriDense
		want.UTo(&upper)
		pauses := 0
		pause := func() { pauses++ }
		f, err := qr.Cholesky(r, 2, gram, pause)
		require.NoError(t, err)
		labels := mat.NewVecDense(max(r, 1), nil)
		for i := range r {
			labels.SetVec(i, rng.NormFloat64())
		}
		square := f.SetLabels(mat.Col(nil, 0, labels)[:r], 1)
		at, packed := 0, f.Packed()
		for i := range r {
			for j := i; j < r; j++ {
				got, want := packed[at+j-i], upper.At(i, j)
				require.False(t, math.Abs(got-want) > 1e-9*(1+math.Abs(want)), "order %d: R[%d,%d] = %g, want %g", r, i, j, got, want)
			}
			at += r - i + 2
		}
		if r == 0 {
			continue
		}
		assert.GreaterOrEqual(t, pauses, r/64, "order %d: %d pauses", r, pauses)
		var solved mat.VecDense
		require.NoError(t, want.SolveVecTo(&solved, labels))
		weights := make([]float64, r)
		f.Weights(weights, 1)
		for i, w := range weights {
			require.InDelta(t, solved.AtVec(i), w, 1e-6*(1+mat.Norm(&solved, 2)), "%v %v", r, i)
		}
		dot := mat.Dot(&solved, labels)
		assert.InDelta(t, dot, square, 1e-6*(1+dot), "order %d: ‖u‖² = %g, want %g", r, square, dot)
		f.Weights(weights, 0)
		assert.EqualValues(t, 0, mat.Norm(mat.NewVecDense(r, weights), 2), "order %d: weights of the other column %g", r, weights)
		pauses = 0
		trace, exact := f.InverseNorm2(pause), inverse.Trace()
		assert.False(t, math.Abs(trace-exact) > 1e-6*exact || pauses != r, "order %d: Tr A⁻¹ = %g after %d pauses, want %g", r, trace, pauses, exact)
	}
	for _, bad := range []float64{-1, 0, math.NaN()} {
		indefinite := make([]float64, 0, 5050)
		for i := range 100 {
			row := make([]float64, 100-i)
			if row[0] = 1; i == 70 {
				row[0] = bad
			}
			indefinite = append(indefinite, row...)
		}
		_, err := qr.Cholesky(100, 1, indefinite, nil)
		assert.Error(t, err, bad)
	}
}
