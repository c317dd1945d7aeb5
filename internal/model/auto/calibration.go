package auto

import (
	"math"

	"hindsight/internal/model/exponential"
)

// calibration turns the prediction of a label −1 or 1 into the probability of
// 1: P = 1/(1+exp(−(a ŷ + c))), its two numbers learned by online Newton steps
// on the logistic loss. With u = (ŷ, 1), p its own probability and t 1 or 0,
//
//	A ← f A + p(1−p) u uᵀ,   (a, c) ← (a, c) − A⁻¹ (p − t) u
//
// cut to ±maxSlope. They begin at (2, 0), the slope of (1+ŷ)/2 in logistic form at 0, and A
// begins at priorWeight I. What A forgets of the prior is renewed.
type calibration struct {
	slope, shift float64
	// aa, ac and cc are A.
	aa, ac, cc float64
}

const (
	priorSlope       = 2
	priorWeight      = 2
	calibrationDecay = 0.9995
	maxSlope         = 20
	maxLogit         = 30 // 1 − 10⁻¹³ is not 1.
)

func newCalibration() calibration {
	return calibration{slope: priorSlope, aa: priorWeight, cc: priorWeight}
}

// probability is the probability of the label 1, above 0 and below 1.
func (c *calibration) probability(score float64) float64 {
	return 1 / (1 + exponential.Of(within(-(float64(c.slope*score)+c.shift), -maxLogit, maxLogit)))
}

func (c *calibration) learn(score, y, weight float64) {
	p := c.probability(score)
	target := (1 + y) / 2
	w := math.Min(weight, 1e3) // Larger weights make the same step.
	curvature := float64(w * float64(p*(1-p)))
	const f = calibrationDecay
	c.aa = float64(f*c.aa) + float64(curvature*float64(score*score)) + (1-f)*priorWeight
	c.ac = float64(f*c.ac) + float64(curvature*score)
	c.cc = float64(f*c.cc) + curvature + (1-f)*priorWeight
	// A is at least priorWeight I.
	determinant := float64(c.aa*c.cc) - float64(c.ac*c.ac)
	g := float64(w * (p - target))
	c.slope -= g * (float64(c.cc*score) - c.ac) / determinant
	c.shift -= g * (c.aa - float64(c.ac*score)) / determinant
	c.slope = within(c.slope, -maxSlope, maxSlope)
	c.shift = within(c.shift, -maxSlope, maxSlope)
}
