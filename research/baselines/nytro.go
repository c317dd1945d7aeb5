package baselines

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Nystrom holds what Nyström KRLS and NYTRO need of a sample (X, Y) of n rows with
// m centres, after the thesis of R. Camoriano, section 4.3. With the Cholesky
// factor L Lᵀ = K_mm, R = L⁻ᵀ, and the features φ(x) = L⁻¹k_m(x) it is
//
//	G = (1/n) Σ φφᵀ = (1/n) Rᵀ K_nmᵀ K_nm R,   b = (1/n) Σ φ y = (1/n) Rᵀ K_nmᵀ Y
//
// The first m' features are those of the first m' centres, because L is lower
// triangular. So the leading parts of G and b belong to every smaller m. Equation
// (4.29) of the thesis lacks R between K_nm and β. Here it is in G.
type Nystrom struct {
	kernel  Kernel
	centres [][]float64
	factor  mat.TriDense  // L
	rows    int           // n
	gram    *mat.SymDense // nG
	moment  *mat.VecDense // nb
}

// Fit is a function f = Σ α_i k(x_i,·) over the first centres.
type Fit []float64

// ErrSingular says that the kernel matrix of the centres is singular, or G + λI.
var ErrSingular = errors.New("baselines: a matrix is singular to rounding")

// blockRows is how many rows of K_nm are in memory at a time.
const blockRows = 512

// NewNystrom returns the factor of the centres, before any row. It costs m³/3
// multiplications.
func NewNystrom(kernel Kernel, centres [][]float64) (*Nystrom, error) {
	m := len(centres)
	among := mat.NewSymDense(m, nil)
	for i := range centres {
		for j := i; j < m; j++ {
			among.SetSym(i, j, kernel.Value(centres[i], centres[j]))
		}
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(among) {
		return nil, ErrSingular
	}
	s := &Nystrom{kernel: kernel, centres: centres, gram: mat.NewSymDense(m, nil), moment: mat.NewVecDense(m, nil)}
	cholesky.LTo(&s.factor)
	return s, nil
}

// Add adds rows to the sample. It costs m·d for the kernel and m² multiplications
// a row.
func (s *Nystrom) Add(x [][]float64, y []float64) error {
	for from := 0; from < len(x); from += blockRows {
		to := min(len(x), from+blockRows)
		block := mat.NewDense(len(s.centres), to-from, nil)
		for j, c := range s.centres {
			for i, row := range x[from:to] {
				block.Set(j, i, s.kernel.Value(row, c))
			}
		}
		var features mat.Dense
		if err := s.factor.SolveTo(&features, false, block); err != nil {
			return fmt.Errorf("%w: %w", ErrSingular, err)
		}
		s.gram.SymRankK(s.gram, 1, &features)
		var moment mat.VecDense
		moment.MulVec(&features, mat.NewVecDense(to-from, y[from:to]))
		s.moment.AddVec(s.moment, &moment)
	}
	s.rows += len(x)
	return nil
}

// Descend is NYTRO (4.28) to (4.30) with the first m centres: from β = 0
//
//	β ← β − γ(Gβ − b),   α = Rβ
//
// It returns the functions after the given numbers of iterations, which ascend.
// In the thesis γ is 1/max k(x,x). An iteration costs m², whatever n is.
func (s *Nystrom) Descend(m int, gamma float64, iterations ...int) []Fit {
	gram, beta, slope := s.gram.SliceSym(0, m), mat.NewVecDense(m, nil), mat.NewVecDense(m, nil)
	moment, share := s.moment.SliceVec(0, m), -gamma/float64(s.rows)
	var fits []Fit
	done := 0
	for _, t := range iterations {
		for ; done < t; done++ {
			slope.MulVec(gram, beta)
			slope.SubVec(slope, moment)
			beta.AddScaledVec(beta, share, slope)
		}
		fits = append(fits, s.fit(beta))
	}
	return fits
}

// Ridge is Nyström KRLS (4.27) with the first m centres:
//
//	β = (G + λI)⁻¹ b,   α = Rβ
//
// It costs m³/3.
func (s *Nystrom) Ridge(m int, lambda float64) (Fit, error) {
	regular := mat.NewSymDense(m, nil)
	regular.CopySym(s.gram.SliceSym(0, m))
	for i := range m {
		regular.SetSym(i, i, regular.At(i, i)+lambda*float64(s.rows))
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(regular) {
		return nil, ErrSingular
	}
	beta := mat.NewVecDense(m, nil)
	if err := cholesky.SolveVecTo(beta, s.moment.SliceVec(0, m)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSingular, err)
	}
	return s.fit(beta), nil
}

// fit returns α = Rβ: it solves Lᵀα = β.
func (s *Nystrom) fit(beta *mat.VecDense) Fit {
	m := beta.Len()
	alpha := make(Fit, m)
	for i := m - 1; i >= 0; i-- {
		v := beta.AtVec(i)
		for j := i + 1; j < m; j++ {
			v -= s.factor.At(j, i) * alpha[j]
		}
		alpha[i] = v / s.factor.At(i, i)
	}
	return alpha
}

// Errors returns the root mean squared errors of functions on rows. It costs n·m·d
// for the kernel and n·m a function.
func (s *Nystrom) Errors(x [][]float64, y []float64, fits ...Fit) []float64 {
	sums, values := make([]float64, len(fits)), make([]float64, len(fits))
	most := 0
	for _, fit := range fits {
		most = max(most, len(fit))
	}
	for i, row := range x {
		clear(values)
		for j, c := range s.centres[:most] {
			k := s.kernel.Value(row, c)
			for f, fit := range fits {
				if j < len(fit) {
					values[f] += fit[j] * k
				}
			}
		}
		for f, v := range values {
			sums[f] += (v - y[i]) * (v - y[i])
		}
	}
	for f := range sums {
		sums[f] = math.Sqrt(sums[f] / float64(len(y)))
	}
	return sums
}
