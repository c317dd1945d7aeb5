// Package mix mixes the predictions of experts.
package mix

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

// Normalize divides the weights by their sum.
func Normalize(weights []float64) {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for k := range weights {
		weights[k] /= sum
	}
}

// Exponential replaces the logarithms of weights by the weights, the largest being 1.
func Exponential(logarithms []float64) {
	largest := math.Inf(-1)
	for _, v := range logarithms {
		largest = max(largest, v)
	}
	for k := range logarithms {
		logarithms[k] -= largest
	}
	exponential.Exp(logarithms, logarithms)
}

// Mean is Σ w_k f_k for weights of sum 1, within the range of the advice of the experts
// with a weight, and 0 without one.
func Mean(weights, advice []float64) float64 {
	sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for k, w := range weights {
		if w > 0 {
			f := advice[k]
			sum += float64(w * f)
			low, high = math.Min(low, f), math.Max(high, f)
		}
	}
	if low > high {
		return 0
	}
	return math.Max(low, math.Min(high, sum)) // Rounding leaves no hull.
}

// Mixture is ML-Poly, the polynomially weighted average with one learning rate an expert,
// over K experts and a linearised loss. With the prediction of the mixture b = Σ w_k f_k and
// a subgradient g of the loss at b,
//
//	r_k = g (b − f_k),  R_k = Σ r_k,  V_k = Σ r_k²,  B = max r²
//	η_k = 1/(B + V_k),  w_k = η_k max(R_k, 0) / Σ_j η_j max(R_j, 0)
//
// The weights are uniform while no R_k is positive. An expert that sleeps has no weight and
// no gain, and the sums are over the experts that are awake. By convexity, R_k bounds the
// regret against expert k, and Σ q_k R_k the regret against the fixed convex combination q,
// over the rounds in which its experts are awake.
//
// Φ = Σ_k η_k max(R_k, 0)² bounds every regret: R_k ≤ √(Φ (B + V_k)). As the weights make
// Σ_k η_k max(R_k, 0) r_k vanish and no η_k ever grows, Φ grows in a round by at most
// Σ_k η_k r_k² with the η_k before the round, or after the round if B = 0 before, because
// then Φ = 0 before. By Cauchy and Schwarz Φ ≤ K T. So with
//
//	S_t = min(S_{t−1} + Σ_k η_k r_k², K t):  R_k ≤ √(Φ (B + V_k)) ≤ √(S (B + V_k))
//
// for every sequence of gains of unknown range. S grows like K log T while B is constant.
//
// No number overflows: the sums are in units of a power of two that is at least the largest
// |r_k|. The weights do not depend on the unit.
//
// Source: Gaillard, Stoltz and van Erven, A Second-order Bound with Excess
// Losses (COLT 2014): ML-Poly and the proof of its regret by the potential Φ.
// Freund, Schapire, Singer and Warmuth, Using and Combining Predictors That
// Specialize (STOC 1997): experts that sleep.
// The rates 1/(B+V) are for gains of unknown range; S is the paper's sum before
// it is bounded by K (1 + ln(1+T)).
type Mixture struct {
	// regrets are R_k in units of unit, squares V_k in units of unit².
	regrets, squares []float64
	// unit is a power of two, 0 before the first gain that is not 0.
	unit float64
	// largest is B in units of unit², and sum is S.
	largest, sum float64
	// rounds is the number of updates T.
	rounds uint64
	gains  []float64
}

// New is a mixture of k experts that has seen nothing.
func New(k int) *Mixture {
	numbers := make([]float64, 3*k)
	return &Mixture{regrets: numbers[:k:k], squares: numbers[k : 2*k : 2*k], gains: numbers[2*k:]}
}

// Experts is K.
func (m *Mixture) Experts() int { return len(m.regrets) }

// Weights writes the weights into dst, at least 0 and of sum 1; 0 if no expert is awake. A nil
// awake means that all are. It costs O(K) and only reads.
func (m *Mixture) Weights(dst []float64, awake []bool) {
	total, count := 0.0, 0
	for k, r := range m.regrets {
		dst[k] = 0
		if awake != nil && !awake[k] {
			continue
		}
		count++
		if r > 0 {
			dst[k] = r / (m.largest + m.squares[k])
			total += dst[k]
		}
	}
	if total > 0 {
		for k := range m.regrets {
			dst[k] /= total
		}
		return
	}
	for k := range m.regrets {
		if awake == nil || awake[k] {
			dst[k] = 1 / float64(count)
		}
	}
}

// Update learns one round: the prediction of the mixture, the advice of the experts, and the
// derivative of the loss at the prediction, 2a(mixed − y) for the squared loss of weight a.
// Gains are finite. The bound holds if mixed is the prediction of the weights. Update costs O(K).
func (m *Mixture) Update(gradient, mixed float64, advice []float64, awake []bool) {
	m.rounds++
	largest := 0.0
	for k, f := range advice[:len(m.gains)] {
		m.gains[k] = 0
		if awake == nil || awake[k] {
			m.gains[k] = float64(gradient * (mixed - f))
			largest = math.Max(largest, math.Abs(m.gains[k]))
		}
	}
	if largest == 0 {
		return
	}
	m.raise(largest)
	largest /= m.unit
	before := m.largest
	m.largest = math.Max(before, float64(largest*largest))
	growth := 0.0
	for k, r := range m.gains {
		r /= m.unit
		square := float64(r * r)
		rate := before + m.squares[k]
		m.regrets[k] += r
		m.squares[k] += square
		if before == 0 {
			rate = m.largest + m.squares[k]
		}
		growth += square / rate
	}
	m.sum = math.Min(m.sum+growth, float64(float64(len(m.gains))*float64(m.rounds)))
}

// Skip counts rounds in which no expert had a gain.
func (m *Mixture) Skip(rounds uint64) { m.rounds += rounds }

// raise makes the unit at least most. A product with a power of two is exact.
func (m *Mixture) raise(largest float64) {
	if largest <= m.unit {
		return
	}
	_, exponent := math.Frexp(largest)
	unit := math.Ldexp(1, exponent)
	ratio := m.unit / unit
	for k := range m.regrets {
		m.regrets[k] *= ratio
		m.squares[k] *= float64(ratio * ratio)
	}
	m.largest *= float64(ratio * ratio)
	m.unit = unit
}

// Regret is R_k, the linearised regret against expert k over the rounds in which k was awake.
func (m *Mixture) Regret(k int) float64 { return float64(m.regrets[k] * m.unit) }

// Potential is Φ at a cost of O(K).
func (m *Mixture) Potential() float64 {
	total := 0.0
	for k, r := range m.regrets {
		if r > 0 {
			total += float64(r*r) / (m.largest + m.squares[k])
		}
	}
	return total
}

// Bound is √(S (B + V_k)), which R_k never exceeds.
func (m *Mixture) Bound(k int) float64 { return m.within(m.sum, k) }

// Certificate is √(Φ (B + V_k)) between R_k and its bound, Φ being Potential.
func (m *Mixture) Certificate(potential float64, k int) float64 { return m.within(potential, k) }

func (m *Mixture) within(potential float64, k int) float64 {
	return float64(m.unit * math.Sqrt(float64(potential*(m.largest+m.squares[k]))))
}

// Bytes is the memory of a mixture of k experts.
func Bytes(k int) uint64 { return 8 * uint64(3*k+4) }

// Limits of a state: rounds are counted in 53 bits, and gains are below 1e215.
const (
	maxRounds = 1 << 53
	maxUnit   = 1e215
)

// Visit visits the state: R, V, the unit, B, S and T. Reading rejects numbers that no gains
// lead to. After a failure the mixture is of no use.
func (m *Mixture) Visit(v *codec.Visitor) {
	v.FloatsWithin(maxRounds, m.regrets)
	v.FloatsWithin(maxRounds, m.squares)
	v.Within(maxUnit, &m.unit)
	v.Within(1, &m.largest)
	v.Float(&m.sum)
	if v.Uint64(&m.rounds); v.Reading() {
		m.check(v)
	}
}

func (m *Mixture) check(v *codec.Visitor) {
	if largest := float64(len(m.regrets)) * float64(m.rounds); m.rounds > maxRounds || !(m.sum >= 0 && m.sum <= largest) {
		v.Corrupt("a mixture with a sum of %g after %d rounds of %d experts", m.sum, m.rounds, len(m.regrets))
	}
	if fraction, _ := math.Frexp(m.unit); m.unit != 0 && fraction != 0.5 {
		v.Corrupt("a mixture with a unit of %g, want a power of two", m.unit)
	}
	if (m.unit == 0) != (m.largest == 0) || m.largest < 0 || (m.unit != 0 && m.largest < 0.25) {
		v.Corrupt("a mixture with a largest square of %g units of %g", m.largest, m.unit)
	}
	for k, square := range m.squares {
		// |R_k| ≤ √(T V_k), and each of its T additions rounds.
		largest := math.Sqrt(float64(float64(m.rounds) * square))
		if square < 0 || (m.unit == 0 && (square != 0 || m.regrets[k] != 0)) || !(math.Abs(m.regrets[k]) <= float64(largest*(1+1e-6))+1e-150) {
			v.Corrupt("expert %d of a mixture: a regret of %g with squares of %g", k, m.regrets[k], square)
		}
	}
}
