// Package losses has the convex losses of the learners that follow a gradient.
package losses

import (
	"math"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// Loss is a loss ℓ(f) of a prediction f under a label y.
type Loss int

// The losses. The labels of Squared are numbers. The labels of the others are −1 and 1, and
// the predictions are scores.
//
// The gradients (23) and (24) of AdaRaker (JMLR 2019) are not the gradients of its losses: (23) is
// the gradient of the squared hinge, (24) is twice the gradient of the logistic model Pr(y=1) = 1/(1+exp f),
// whose score has the opposite sign. The gradients here are derivatives of the losses.
const (
	// Squared is ℓ = (f−y)², ℓ' = 2(f−y).
	Squared Loss = iota
	// Logistic is ℓ = log(1+exp(−yf)), ℓ' = −y/(1+exp(yf)).
	Logistic
	// Hinge is ℓ = max(0, 1−yf), ℓ' = −y where yf < 1, else 0.
	Hinge
	// SquaredHinge is ℓ = max(0, 1−yf)², ℓ' = −2y max(0, 1−yf).
	SquaredHinge
)

func (l Loss) String() string {
	switch l {
	case Squared:
		return "squared"
	case Logistic:
		return "logistic"
	case Hinge:
		return "hinge"
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
		// log(1+exp(m)) = max(m, 0) + log(1+exp(−|m|)): exp cannot overflow.
		m := -float64(y * f)
		return math.Max(m, 0) + exponential.Log1p(exponential.Of(-math.Abs(m)))
	case Hinge:
		return math.Max(0, 1-float64(y*f))
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

// Slope is ℓ'(f) under the label y. At the kink of Hinge it is the subgradient 0.
func (l Loss) Slope(f, y float64) float64 {
	switch l {
	case Logistic:
		return -y / (1 + exponential.Of(float64(y*f))) // 0 if exp is infinite.
	case Hinge:
		if float64(y*f) < 1 {
			return -y
		}
		return 0
	case SquaredHinge:
		return -2 * float64(y*math.Max(0, 1-float64(y*f)))
	case Squared:
		fallthrough
	default:
		return 2 * (f - y)
	}
}

// CheckLabels accepts a label of the loss for each output.
func (l Loss) CheckLabels(y []float64, outputs int) error {
	if err := model.CheckLabels(y, outputs); err != nil || l == Squared {
		return err
	}
	for j, v := range y {
		if v == 1 || v == -1 {
			continue
		}
		err := &model.FieldError{
			Field: "label", Err: model.ErrLabelOutOfRange,
			Got: strconv.FormatFloat(v, 'g', -1, 64), Want: "-1 or 1 for the " + l.String() + " loss",
		}
		if len(y) > 1 {
			err.Field = "labels[" + strconv.Itoa(j) + "]"
		}
		return err
	}
	return nil
}
