package baselines

import "math"

// Loss is a loss of a prediction under a label.
type Loss int

// The losses of the AdaRaker paper, sections 5.2 and 5.3.
const (
	// Squared is (f−y)².
	Squared Loss = iota
	// Logistic is log(1 + exp(−yf)), of labels -1 and +1.
	Logistic
)

// Of is the loss of the prediction f under the label y.
func (l Loss) Of(f, y float64) float64 {
	if l == Logistic {
		return max(0, -y*f) + math.Log1p(math.Exp(-math.Abs(f)))
	}
	return (f - y) * (f - y)
}

// Slope is the derivative of the loss by the prediction. (24) of the AdaRaker paper
// has twice this slope for the logistic loss, with the sign of its model of labels.
func (l Loss) Slope(f, y float64) float64 {
	if l == Logistic {
		return -y / (1 + math.Exp(y*f))
	}
	return 2 * (f - y)
}
