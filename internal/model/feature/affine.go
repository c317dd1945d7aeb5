package feature

import "hindsight/internal/model"

// Affine is the map x ↦ (x, 1) of linear AWV.
type Affine struct{ shape }

// NewAffine is the map for d inputs.
func NewAffine(d int) *Affine {
	return &Affine{shape{dimension: d, size: d + 1, limit: model.MaxMagnitude}}
}

// Map writes (x, 1) into z, d+1 numbers.
func (a *Affine) Map(z, x []float64) {
	if len(x) != a.dimension || len(z) != a.dimension+1 {
		panic("feature: Affine.Map wants dimension inputs and dimension+1 features")
	}
	copy(z, x)
	z[a.dimension] = 1
}
