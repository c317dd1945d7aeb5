package kons

import (
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/losses"
)

// Curvature is the largest σ for which, for all predictions f and g in [−c, c], c > 0,
// and every label,
//
//	ℓ(g) ≥ ℓ(f) + ℓ'(f)(g−f) + (σ/2)(ℓ'(f)(g−f))²
//
// which is Assumption 2 of KONS (ICML 2017). The labels of the squared loss are in
// [−c, c]. The hinge loss has no curvature.
//
//	squared        1/(8c²)
//	logistic       exp(−c)
//	squared hinge  1/(2(1+c)²) for c ≤ 1, else (3c−1)/(8c²(1+c))
func Curvature(l losses.Loss, c float64) float64 {
	switch l {
	case losses.Logistic:
		return exponential.Of(-c)
	case losses.SquaredHinge:
		if c <= 1 {
			return 1 / (2 * float64((1+c)*(1+c)))
		}
		return (float64(3*c) - 1) / (8 * float64(c*c) * (1 + c))
	case losses.Hinge:
		return 0
	case losses.Squared:
		fallthrough
	default:
		return 1 / (8 * float64(c*c))
	}
}
