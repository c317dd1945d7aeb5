package feature

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/qr"
)

// Nystrom is the map onto the span of a dictionary of centres c_1 … c_m: with
// K_mm = LLᵀ their Gram matrix,
//
//	φ(x) = L⁻¹ k_m(x),   φ(x)·φ(x') = ⟨Pφ(x), Pφ(x')⟩
//
// orthonormal coordinates: a new centre appends one coordinate and leaves the others as they
// were. Grow needs exclusive access.
//
// Source: PKAWV-Nyström (NeurIPS 2019) §4.
type Nystrom struct {
	shape

	kernel kernel.Kernel
	// centres holds them one after another.
	centres []float64
	gram    *qr.Lower
}

// NewNystrom is the map of an empty dictionary for k(x,x) ≤ bound. It panics unless d is positive.
func NewNystrom(k kernel.Kernel, dimension int, bound float64) *Nystrom {
	if dimension < 1 {
		panic("feature: NewNystrom wants dimension >= 1")
	}
	return &Nystrom{
		shape: shape{dimension: dimension, limit: KernelInputLimit(k, dimension, bound)}, kernel: k, gram: &qr.Lower{},
	}
}

// KernelInputLimit is the largest magnitude of an input entry that ensures k(x,x) ≤ bound.
func KernelInputLimit(k kernel.Kernel, dimension int, bound float64) float64 {
	if k.ShiftInvariant() {
		return model.MaxMagnitude
	}
	offset := 0.0
	if k.Kind == kernel.Polynomial {
		bound, offset = math.Pow(bound, 1/math.Max(1, float64(k.Degree))), k.Offset
	}
	return math.Sqrt(math.Max(bound-offset, 0) / float64(dimension))
}

// Centres are the centres, one after another, not a copy.
func (n *Nystrom) Centres() []float64 { return n.centres }

// Map writes φ(x) into z, at m kernel values and m²/2 multiply-adds.
func (n *Nystrom) Map(z, x []float64) {
	n.Kernels(z, x)
	n.gram.Solve(z)
}

// Self is k(x,x), of which ‖φ(x)‖² is the part in the span of the centres.
func (n *Nystrom) Self(x []float64) float64 { return n.kernel.At(x, x) }

// Kernels writes the kernel values k(c_i, x) into z, m numbers.
func (n *Nystrom) Kernels(z, x []float64) {
	if len(x) != n.dimension || len(z) != n.Size() {
		panic("feature: Nystrom wants dimension inputs and size features")
	}
	n.kernel.Values(z, n.centres, x)
}

// independence is the smallest part of k(c,c) of a new centre outside the span of the others.
const independence = 1e-10

// Grow adds a centre and returns true, unless the centre lies in the span of the others to
// working precision: δ² = k(c,c) − ‖L⁻¹k_m(c)‖² ≤ 1e-10 k(c,c). It costs as much as Map.
func (n *Nystrom) Grow(centre []float64) bool {
	row := make([]float64, n.Size())
	n.Kernels(row, centre)
	self := n.kernel.At(centre, centre)
	square := self - n.gram.Solve(row)
	if !(square > independence*self) {
		return false
	}
	n.gram.Append(row, math.Sqrt(square))
	n.centres = append(n.centres, centre...)
	n.size = n.gram.Order()
	n.bytes = 8 * uint64(len(n.centres)+qr.LowerSize(n.size))
	return true
}

// Last is the last coordinate ψ(x) of an input, given the others, with the bits of Map:
// (k(x,c_m) − l·φ(x))/δ, (l, δ) the last row of L, at one kernel value and m multiply-adds.
func (n *Nystrom) Last(others, x []float64) float64 {
	m := n.Size() - 1
	return qr.Next(n.gram.Row(m), others, n.kernel.At(n.centres[m*n.dimension:], x))
}
