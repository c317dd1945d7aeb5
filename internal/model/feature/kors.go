package feature

import (
	"math"

	"hindsight/internal/model/exponential"
	"hindsight/internal/model/qr"
)

// KORS samples a dictionary by approximate ridge leverage scores. The weights
// S = diag(1/√p_i) are fixed when a centre is sampled. During its draw a new point is in the
// dictionary with weight 1:
//
//	τ̃ = (1+ε)/μ · (k(x,x) − k̄ᵀ(SKS + μI)⁻¹k̄),   k̄ = Sk over both,
//	p = min(βτ̃, 1),   sampled with probability p, and then with weight 1/p
//
// With e = k(x,x) − ‖c‖², c = (factor of SKS + μI)⁻¹ S k_m(x), the bracket is
// e − e²/(e+μ), so that τ̃ = (1+ε) e/(e+μ): one forward solve a point.
//
// Source: KONS (ICML 2017), Algorithm 2, whose α is μ here.
type KORS struct {
	mu, epsilon, beta float64
	// Probabilities are the p_i, weights 1/√p_i.
	probabilities, weights []float64
	factor                 *qr.Lower
	// solved, rest and self are c, e and k(x,x) of the last point.
	solved     []float64
	rest, self float64
}

// NewKORS is the sampler of an empty dictionary. It panics unless its parameters are positive.
func NewKORS(mu, epsilon, beta float64) *KORS {
	if !(mu > 0) || !(epsilon > 0) || !(beta > 0) {
		panic("feature: NewKORS wants positive parameters")
	}
	return &KORS{mu: mu, epsilon: epsilon, beta: beta, factor: &qr.Lower{}}
}

// KORSBeta is the β with which, with probability 1−δ over n rounds,
// (1−ε)A_t ⪯ A_t^I ⪯ (1+ε)A_t and ‖(I−P_t)C_t^{1/2}‖² ≤ μ, for 0 < ε < 1:
// 3 log(n/δ)/ε². Source: KONS (ICML 2017), Theorem 2; in PKAWV-Nyström ε = ½.
func KORSBeta(n, delta, epsilon float64) float64 {
	return 3 * exponential.Log(n/delta) / float64(epsilon*epsilon)
}

// Probability is p of a point, given the kernel values k_m(x), m numbers, and self = k(x,x).
// It costs m²/2 multiply-adds and allocates only after the dictionary has grown.
func (k *KORS) Probability(values []float64, self float64) float64 {
	if len(values) != k.factor.Order() {
		panic("feature: KORS.Probability wants a kernel value per centre")
	}
	k.solved = append(k.solved[:0], values...)
	for i, w := range k.weights {
		k.solved[i] *= w
	}
	k.self = self
	if k.rest = self - k.factor.Solve(k.solved); !(k.rest > 0) { // NaN too.
		k.rest = 0
	}
	leverage := (1 + k.epsilon) * k.rest / (k.rest + k.mu)
	return math.Min(k.beta*leverage, 1)
}

// Add adds the point of the last call of Probability, which was sampled with probability p.
func (k *KORS) Add(p float64) {
	weight := 1 / math.Sqrt(p)
	row := k.solved
	square := 0.0
	for i := range row {
		row[i] *= weight
		square += float64(row[i] * row[i])
	}
	corner := k.self/p + k.mu - square
	if !(corner > k.mu) { // In exact arithmetic it is. NaN too.
		corner = k.mu
	}
	k.factor.Append(row, math.Sqrt(corner))
	k.probabilities, k.weights = append(k.probabilities, p), append(k.weights, weight)
}

// sameProbability is how far a probability may be from the probability on another machine.
const sameProbability = 1e-6

// Rejoin adds a point that was sampled with probability p, in the order of Add, and reports
// whether p is the probability of the point. The same points make the same sampler bit for bit.
func (k *KORS) Rejoin(values []float64, self, p float64) bool {
	again := k.Probability(values, self)
	if !(p > 0 && math.Abs(p-again) <= sameProbability*p) {
		return false
	}
	k.Add(p)
	return true
}

// Probabilities are the probabilities with which the points were sampled, not a copy: for encoding.
func (k *KORS) Probabilities() []float64 { return k.probabilities }

// Bytes is the memory of the sampler.
func (k *KORS) Bytes() uint64 { return 8 * uint64(2*len(k.weights)+qr.LowerSize(k.factor.Order())) }
