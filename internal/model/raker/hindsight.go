package raker

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// moments are the sufficient statistics of one kernel under the squared loss:
// C = Σ w z zᵀ and b = Σ w y z.
//
// The comparator of the regret is the best fixed function of the best kernel,
//
//	L* = min_p min_θ Σ w (y − θ·z_p)² + λ‖θ‖²
//
// with the penalty once, as everywhere in this module. The paper's loss
// carries λ‖θ‖² in every round; that comparator pays more and is the easier
// one, so the regret reported here is no smaller, as long as the weights sum
// to 1 or more. The learner's own loss is the plain Σ w (y − ŷ)².
type moments struct {
	// packed is C by rows of its upper triangle.
	packed []float64
	b      []float64
}

func newMoments(r int) moments {
	return moments{packed: make([]float64, r*(r+1)/2), b: make([]float64, r)}
}

// add takes one observation in, at r²/2 multiply-adds.
func (m *moments) add(z []float64, y, weight float64) {
	rest := m.packed
	for i, v := range z {
		a, tail := float64(weight*v), z[i:]
		row := rest[:len(tail)]
		rest = rest[len(tail):]
		for j, u := range tail {
			row[j] += float64(a * u)
		}
		m.b[i] += float64(a * y)
	}
}

// solution is the best function of one kernel.
type solution struct {
	kernel int
	// loss is L*, penalty the λ‖θ̂‖² in it.
	loss, penalty float64
}

// ridgeFloor keeps C+λI positive definite in floating point, relative to
// tr C: features of a smooth kernel are collinear to rounding. It matters when
// λ is below a millionth of a millionth of the summed weights; L* then
// penalizes by the floor.
const ridgeFloor = 1e-12

// factor is the Cholesky factor of C+λI, with the λ that it took.
func (m *moments) factor(lambda float64) (*mat.Cholesky, float64, bool) {
	r := len(m.b)
	full, at, trace := mat.NewSymDense(r, nil), 0, 0.0
	for i := range r {
		trace += m.packed[at]
		for j := i; j < r; j++ {
			full.SetSym(i, j, m.packed[at])
			at++
		}
	}
	lambda = math.Max(lambda, ridgeFloor*trace)
	if lambda == 0 {
		lambda = 1 // Nothing was seen, or only z = 0: any ridge gives θ̂ = 0.
	}
	for i := range r {
		full.SetSym(i, i, full.At(i, i)+lambda)
	}
	var c mat.Cholesky
	return &c, lambda, c.Factorize(full)
}

// solve finds θ̂ = (C+λI)⁻¹ b and L* = Σ w y² − b·θ̂, at r³/3 multiply-adds.
// It answers NaN when C is no matrix of moments: corrupt state.
func (m *moments) solve(lambda, energy float64) solution {
	c, lambda, ok := m.factor(lambda)
	failed := solution{loss: math.NaN(), penalty: math.NaN()}
	if !ok {
		return failed
	}
	var theta mat.VecDense
	b := mat.NewVecDense(len(m.b), m.b)
	if err := c.SolveVecTo(&theta, b); err != nil && theta.Len() == 0 {
		return failed // A condition error leaves the solution in place.
	}
	norm := mat.Norm(&theta, 2)
	return solution{
		// The difference of two nearly equal sums may round below 0.
		loss:    math.Max(0, energy-mat.Dot(b, &theta)),
		penalty: lambda * norm * norm,
	}
}

// effectiveDimension is r − λ tr (C+λI)⁻¹, at r³ multiply-adds.
func (m *moments) effectiveDimension(lambda float64) float64 {
	c, lambda, ok := m.factor(lambda)
	if !ok {
		return math.NaN()
	}
	inverse := mat.NewSymDense(len(m.b), nil)
	// A condition error leaves the inverse in place, as good as it gets.
	_ = c.InverseTo(inverse)
	return math.Max(0, float64(len(m.b))-lambda*inverse.Trace())
}
