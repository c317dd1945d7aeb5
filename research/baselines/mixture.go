package baselines

import "math"

// mixingStep is the step of the weights, in section 5 of the AdaRaker paper.
const mixingStep = 0.5

// Mixture weighs predictors, for every step size, by (21) of the AdaRaker paper:
//
//	w_p ← w_p exp(−0.5 L(f_p(x_t), y_t)),   f(x) = Σ w_p f_p(x) / Σ w_p
type Mixture struct{ exponents []Values }

// NewMixture returns equal weights of so many predictors.
func NewMixture(predictors int) *Mixture { return &Mixture{exponents: make([]Values, predictors)} }

// Predict mixes the predictions of the predictors. One that has diverged has the
// weight 0. The mixture is NaN if all have diverged.
func (m *Mixture) Predict(values []Values) (mixed Values) {
	for s := range mixed {
		least := math.Inf(1)
		for _, e := range m.exponents {
			least = min(least, e[s])
		}
		sum := 0.0
		for p, e := range m.exponents {
			if w := math.Exp(least - e[s]); w > 0 && !math.IsNaN(values[p][s]) {
				mixed[s] += w * values[p][s]
				sum += w
			}
		}
		mixed[s] /= sum
	}
	return mixed
}

// Learn weighs the predictors by their losses. NaN is a loss without end.
func (m *Mixture) Learn(losses []Values) {
	for p := range m.exponents {
		for s, l := range losses[p] {
			if math.IsNaN(l) {
				l = math.Inf(1)
			}
			m.exponents[p][s] += mixingStep * l
		}
	}
}
