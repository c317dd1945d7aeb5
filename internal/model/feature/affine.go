package feature

import "hindsight/internal/model"

// Affine is the map x ↦ (x, 1) of linear AWV.
type Affine struct{ dimension int }

// NewAffine is the map for d inputs.
func NewAffine(d int) *Affine { return &Affine{dimension: d} }

// Dimension is d, the number of inputs.
func (a *Affine) Dimension() int { return a.dimension }

// Size is d+1.
func (a *Affine) Size() int { return a.dimension + 1 }

// InputLimit is the largest magnitude of an input entry.
func (a *Affine) InputLimit() float64 { return model.MaxMagnitude }

// Bytes is the memory of the map.
func (a *Affine) Bytes() uint64 { return 0 }

// Map writes (x, 1) into z, d+1 numbers.
func (a *Affine) Map(z, x []float64) {
	if len(x) != a.dimension || len(z) != a.dimension+1 {
		panic("feature: Affine.Map wants dimension inputs and dimension+1 features")
	}
	copy(z, x)
	z[a.dimension] = 1
}
