package baselines_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/cmd/research/baselines"
)

// dense are the matrices of the thesis, section 4.3: K_nm and K_mm.
func dense(kernel baselines.Kernel, x, centres [][]float64) (nm, mm *mat.Dense) {
	nm, mm = mat.NewDense(len(x), len(centres), nil), mat.NewDense(len(centres), len(centres), nil)
	for j, c := range centres {
		for i, row := range x {
			nm.Set(i, j, kernel.Value(row, c))
		}
		for i, other := range centres {
			mm.Set(i, j, kernel.Value(other, c))
		}
	}
	return nm, mm
}

// ridge solves (4.24) of the thesis: (K_nmᵀK_nm + λn K_mm) α = K_nmᵀ Y.
func ridge(t *testing.T, nm, mm *mat.Dense, y []float64, lambda float64) []float64 {
	t.Helper()
	var a, b mat.Dense
	a.Mul(nm.T(), nm)
	b.Scale(lambda*float64(len(y)), mm)
	a.Add(&a, &b)
	var right, alpha mat.VecDense
	right.MulVec(nm.T(), mat.NewVecDense(len(y), y))
	if err := alpha.SolveVec(&a, &right); err != nil {
		t.Fatal(err)
	}
	return alpha.RawVector().Data
}

// descended makes the iterations (4.28) to (4.30) of the thesis with dense matrices,
// with R, R Rᵀ = K_mm⁻¹, from eigenvectors: another R than the one of the Cholesky
// factor. The function does not depend on R.
func descended(t *testing.T, nm, mm *mat.Dense, y []float64, gamma float64, iterations int) []float64 {
	t.Helper()
	m, n := mm.RawMatrix().Rows, float64(len(y))
	symmetric := mat.NewSymDense(m, mm.RawMatrix().Data)
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, true) {
		t.Fatal("no eigenvalues")
	}
	var r mat.Dense
	eigen.VectorsTo(&r)
	for j, v := range eigen.Values(nil) {
		for i := range m {
			r.Set(i, j, r.At(i, j)/math.Sqrt(v))
		}
	}
	beta, alpha := mat.NewVecDense(m, nil), mat.NewVecDense(m, nil)
	var residual, left, slope mat.VecDense
	for range iterations {
		alpha.MulVec(&r, beta)
		residual.MulVec(nm, alpha)
		residual.SubVec(&residual, mat.NewVecDense(len(y), y))
		left.MulVec(nm.T(), &residual)
		slope.MulVec(r.T(), &left)
		beta.AddScaledVec(beta, -gamma/n, &slope)
	}
	alpha.MulVec(&r, beta)
	return alpha.RawVector().Data
}

// values returns f at rows.
func values(nm *mat.Dense, alpha []float64) []float64 {
	var f mat.VecDense
	f.MulVec(nm, mat.NewVecDense(len(alpha), alpha))
	return f.RawVector().Data
}

// Nyström KRLS and NYTRO are (4.24) and (4.28) to (4.30) of the thesis solved with
// dense matrices, for all centres and for the first ones, whether the rows came at
// once or in parts. Errors are root mean squares.
func TestNystrom(t *testing.T) {
	const n, m = 700, 24
	random := rand.New(rand.NewPCG(6, 6))
	x := inputs(random, n, 3)
	y := labels(random, baselines.Squared, x)
	kernel := baselines.Gaussian(0.3)
	centres := inputs(random, m+10, 3)[1:]
	distinct := centres[:0:0]
	for i, c := range centres {
		if (i+1)%5 != 0 || i < 5 {
			distinct = append(distinct, c)
		}
	}
	centres = distinct[:m]
	s, err := baselines.NewNystrom(kernel, centres)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]int{{0, 600}, {600, 601}, {601, n}} {
		if err := s.Add(x[part[0]:part[1]], y[part[0]:part[1]]); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{1, 5, m} {
		nm, mm := dense(kernel, x, centres[:size])
		for _, lambda := range []float64{1e-6, 1e-2, 1} {
			got, err := s.Ridge(size, lambda)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, fmt.Sprintf("ridge, m = %d, λ = %v", size, lambda), values(nm, got), values(nm, ridge(t, nm, mm, y, lambda)))
		}
		counts := []int{0, 1, 10, 200}
		for i, got := range s.Descend(size, 1, counts...) {
			want := values(nm, descended(t, nm, mm, y, 1, counts[i]))
			compare(t, fmt.Sprintf("NYTRO, m = %d, t = %d", size, counts[i]), values(nm, got), want)
			sum := 0.0
			for j, v := range want {
				sum += (v - y[j]) * (v - y[j]) / n
			}
			near(t, "error", s.Errors(x, y, nil, got)[1], math.Sqrt(sum), 1e-9)
		}
	}
}

func compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		near(t, fmt.Sprintf("%s, row %d", what, i), got[i], want[i], 1e-8)
	}
}

// After more iterations the loss on the sample is never larger, and at last it is
// that of the least squares: thesis, section 4.3, γ = 1/max k(x,x).
func TestNytroDescends(t *testing.T) {
	const n = 300
	random := rand.New(rand.NewPCG(7, 7))
	x := inputs(random, n, 2)
	y := labels(random, baselines.Squared, x)
	s, err := baselines.NewNystrom(baselines.Gaussian(1), x[:4])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(x, y); err != nil {
		t.Fatal(err)
	}
	least, err := s.Ridge(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	fits := append(s.Descend(4, 1, 1, 2, 4, 8, 64, 512, 200000), least)
	errs := s.Errors(x, y, fits...)
	for i := 1; i < len(errs)-1; i++ {
		if errs[i] > errs[i-1]*(1+1e-12) {
			t.Errorf("error %v after %v", errs[i], errs[i-1])
		}
	}
	near(t, "the end of the descent", errs[len(errs)-2], errs[len(errs)-1], 1e-6)
}

// Two equal centres have a singular kernel matrix.
func TestNystromSingular(t *testing.T) {
	x := [][]float64{{1, 2}, {1, 2}}
	if _, err := baselines.NewNystrom(baselines.Gaussian(1), x); !errors.Is(err, baselines.ErrSingular) {
		t.Errorf("%v", err)
	}
}
