package awv

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/ledger"
)

// mixture mixes K predictions of the same labels by exponential weights. With the
// range [l, h] of a label, W = h − l,
//
//	f_k = min(max(ŷ_k, l), h),  c_k = Σ ω(f_k − y)²
//	ŷ = Σ w_k f_k / Σ w_k,  w_k = exp(−(c_k − min c)/(2W²))
//
// with c_k of the previous rounds and ω the weight of an observation. On [l, h] the loss ω(f
// − y)², ω ≤ 1, is exponentially concave at the rate 1/(2W²). While all labels are in the
// range and all weights at most 1,
//
//	Σ ω(ŷ − y)² ≤ min_k c_k + 2W² ln K
//
// and c_k is at most the loss of forecaster k: clipping brings no prediction further from a
// label in the range. Several outputs share one weight per forecaster: losses are summed, and
// W² is Σ W_j².
//
// A range that is not given is the range of the previous labels. While its W is 0, nothing is
// clipped and all weights are equal.
//
// Source: Kivinen and Warmuth, EuroCOLT 1999, §3; Cesa-Bianchi and Lugosi (2006), Proposition
// 3.1 and Theorem 3.2.
type mixture struct {
	// low and high are the range of each label.
	low, high []float64
	// given: the spec has the range. broken: a label left the range or a weight was above 1.
	given, broken bool
	// loss is that of the mixture, n the number of rounds.
	loss    compensated.Sum
	experts []expert
	n       uint64
}

type expert struct {
	// cut is c_k, gap the mixture's loss less that of the unclipped predictions.
	cut, gap compensated.Sum
}

func newMixture(outputs int, p Path) *mixture {
	m := &mixture{
		low: make([]float64, outputs), high: make([]float64, outputs),
		given: p.Low != nil, experts: make([]expert, len(p.Lambdas)),
	}
	copy(m.low, p.Low)
	copy(m.high, p.High)
	return m
}

func mixtureBytes(outputs int, p Path) uint64 {
	if p.Low != nil {
		return uint64(8 + 16 + 32*len(p.Lambdas))
	}
	return uint64(16*outputs + 16 + 32*len(p.Lambdas))
}

// width is W, without its square, which may overflow.
func (m *mixture) width() float64 {
	largest, sum := 0.0, 0.0
	for j, low := range m.low {
		largest = math.Max(largest, m.high[j]-low)
	}
	if largest == 0 {
		return 0
	}
	for j, low := range m.low {
		part := (m.high[j] - low) / largest
		sum += float64(part * part)
	}
	return float64(largest * math.Sqrt(sum))
}

const maxExponent = 800

// writeWeights writes the weights w_k into dst. The largest is 1.
func (m *mixture) writeWeights(dst []float64) {
	smallest := math.Inf(1)
	for k := range m.experts {
		smallest = math.Min(smallest, m.experts[k].cut.Value())
	}
	width := m.width()
	for k := range m.experts {
		dst[k] = 0
		if above := m.experts[k].cut.Value() - smallest; width > 0 && above > 0 {
			dst[k] = -math.Min(above/width/width/2, maxExponent)
		}
	}
	exponential.Exp(dst, dst)
}

// mix clips the advice, which holds the predictions of one forecaster after those of another,
// and writes the mixed prediction of each label into dst.
func (m *mixture) mix(dst, weights, advice []float64) {
	cuts := m.given || m.width() > 0
	for j := range dst {
		sum, total := 0.0, 0.0
		smallest, largest := math.Inf(1), math.Inf(-1)
		for k, w := range weights {
			f := &advice[k*len(dst)+j]
			if cuts {
				*f = math.Max(m.low[j], math.Min(m.high[j], *f))
			}
			sum += float64(w * *f)
			total += w
			smallest, largest = math.Min(smallest, *f), math.Max(largest, *f)
		}
		dst[j] = math.Max(smallest, math.Min(largest, sum/total)) // Rounding leaves no hull.
	}
}

// spread sets the mean leverage of the forecasters and the standard errors about the mixed
// prediction ŷ of a label, sqrt(Σ w_k (σ_k² + (f_k − ŷ)²) / Σ w_k), given the clipped advice.
func (m *mixture) spread(p *model.Prediction, weights, advice []float64, own []model.Prediction) {
	total := 0.0
	p.Leverage = 0
	for k, w := range weights {
		total += w
		p.Leverage += float64(w * own[k].Leverage)
	}
	p.Leverage /= total
	p.StandardErrors = p.StandardErrors[:len(own[0].StandardErrors)]
	for j := range p.StandardErrors {
		variance := 0.0
		for k, w := range weights {
			off := advice[k*len(p.Values)+j] - p.Values[j]
			deviation := own[k].StandardErrors[j]
			variance += float64(w * (float64(deviation*deviation) + float64(off*off)))
		}
		p.StandardErrors[j] = math.Sqrt(variance / total)
	}
}

// learn accounts for a round, given the mixed predictions, the clipped advice
// and each forecaster's predictions. It returns the loss.
func (m *mixture) learn(mixed, advice []float64, own []model.Outcome, y []float64, weight float64) (loss float64) {
	for j, label := range y {
		miss := label - mixed[j]
		loss += float64(weight * float64(miss*miss))
	}
	m.loss.Add(loss)
	for k := range m.experts {
		e := &m.experts[k]
		for j, label := range y {
			miss := label - advice[k*len(y)+j]
			e.cut.Add(float64(weight * float64(miss*miss)))
			// (ŷ−y)² − (ŷ_k−y)², without the cancellation of the two.
			said := own[k].Predictions[j]
			e.gap.Add(float64(weight * float64((mixed[j]-said)*((mixed[j]-label)+(said-label)))))
		}
	}
	m.follow(y, weight)
	return loss
}

// follow ends a round. A range that is not given grows to hold the labels.
func (m *mixture) follow(y []float64, weight float64) {
	m.n++
	if m.given {
		m.broken = m.broken || weight > 1
	}
	for j, label := range y {
		switch {
		case m.given:
			m.broken = m.broken || label < m.low[j] || label > m.high[j]
		case m.n == 1:
			m.low[j], m.high[j] = label, label
		default:
			m.low[j], m.high[j] = math.Min(m.low[j], label), math.Max(m.high[j], label)
		}
	}
}

// certified tells whether the theorem applies.
func (m *mixture) certified() bool { return m.given && !m.broken }

// excess is 2W² ln K, which bounds the loss of the mixture less that of its best forecaster.
func (m *mixture) excess() float64 {
	width := m.width()
	return 2 * width * width * exponential.Log(float64(len(m.experts)))
}

// visit visits the range, or for a given range whether it is broken, the loss and the sums of
// every forecaster.
func (m *mixture) visit(v *codec.Visitor) {
	if m.given {
		v.Bool(&m.broken)
	} else {
		v.FloatsWithin(model.MaxMagnitude, m.low)
		v.FloatsWithin(model.MaxMagnitude, m.high)
	}
	v.Within(ledger.MaxSum, &m.loss.High, &m.loss.Low)
	for k := range m.experts {
		e := &m.experts[k]
		v.Within(ledger.MaxSum, &e.cut.High, &e.cut.Low, &e.gap.High, &e.gap.Low)
		if cut := e.cut.Value(); v.Reading() && (!(cut >= 0) || (m.n == 0 && cut != 0)) {
			v.Corrupt("forecaster %d lost %g in %d rounds", k, cut, m.n)
		}
	}
	if !v.Reading() {
		return
	}
	if loss := m.loss.Value(); !(loss >= 0) {
		v.Corrupt("a mixture lost %g", loss)
	}
	for j, low := range m.low {
		if !(low <= m.high[j]) || (m.n == 0 && !m.given && (low != 0 || m.high[j] != 0)) {
			v.Corrupt("a range from %g to %g after %d rounds", low, m.high[j], m.n)
		}
	}
}
