package kons

import (
	"math"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// Loss is what a prediction f costs under a label y.
type Loss int

// The losses, and the largest σ for which, for all f and g in [−C, C] and every label,
//
//	ℓ(g) ≥ ℓ(f) + ℓ'(f)(g−f) + (σ/2)(ℓ'(f)(g−f))²
//
// which is Assumption 2 of KONS (ICML 2017). The hinge loss has none: it is not curved.
// The labels of the squared loss are in [−C, C], those of the others −1 and 1.
const (
	// Squared is ℓ = (f−y)², ℓ' = 2(f−y), σ = 1/(8C²).
	Squared Loss = iota
	// Logistic is ℓ = log(1+exp(−yf)), ℓ' = −y/(1+exp(yf)), σ = exp(−C).
	Logistic
	// SquaredHinge is ℓ = max(0, 1−yf)², ℓ' = −2y max(0, 1−yf), and
	// σ = 1/(2(1+C)²) for C ≤ 1, else (3C−1)/(8C²(1+C)).
	SquaredHinge
)

// String names the loss.
func (l Loss) String() string {
	switch l {
	case Squared:
		return "squared"
	case Logistic:
		return "logistic"
	case SquaredHinge:
		return "squared hinge"
	default:
		return "loss " + strconv.Itoa(int(l))
	}
}

// Value is ℓ(f) under the label y.
func (l Loss) Value(f, y float64) float64 {
	switch l {
	case Logistic:
		// Of log(1+exp(m)) the larger part goes outside, so that exp cannot overflow.
		m := -float64(y * f)
		return math.Max(m, 0) + exponential.Log1p(exponential.Of(-math.Abs(m)))
	case SquaredHinge:
		miss := math.Max(0, 1-float64(y*f))
		return float64(miss * miss)
	case Squared:
		fallthrough
	default:
		miss := f - y
		return float64(miss * miss)
	}
}

// Slope is ℓ'(f) under the label y.
func (l Loss) Slope(f, y float64) float64 {
	switch l {
	case Logistic:
		return -y / (1 + exponential.Of(float64(y*f))) // An infinite one gives 0, as it should.
	case SquaredHinge:
		return -2 * float64(y*math.Max(0, 1-float64(y*f)))
	case Squared:
		fallthrough
	default:
		return 2 * (f - y)
	}
}

// Curvature is σ for predictions in [−c, c], c > 0.
func (l Loss) Curvature(c float64) float64 {
	switch l {
	case Logistic:
		return exponential.Of(-c)
	case SquaredHinge:
		if c <= 1 {
			return 1 / (2 * float64((1+c)*(1+c)))
		}
		return (float64(3*c) - 1) / (8 * float64(c*c) * (1 + c))
	case Squared:
		fallthrough
	default:
		return 1 / (8 * float64(c*c))
	}
}

// check accepts the labels of the loss, of the numbers that are labels.
func (l Loss) check(y float64) *model.FieldError {
	if l != Squared && y != 1 && y != -1 {
		return &model.FieldError{
			Field: "label", Err: model.ErrLabelOutOfRange,
			Got: strconv.FormatFloat(y, 'g', -1, 64), Want: "-1 or 1 for the " + l.String() + " loss",
		}
	}
	return nil
}
