package awv

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/mix"
)

// mixed is the mixture of several forecasters of one output by ML-Poly: see package mix.
type mixed struct {
	mixture *mix.Mixture
	loss    compensated.Sum
}

func newMixed(experts, outputs int) []mixed {
	all := make([]mixed, outputs)
	for j := range all {
		all[j].mixture = mix.New(experts)
	}
	return all
}

func mixedBytes(experts, outputs int) uint64 { return uint64(outputs) * (8*3 + mix.Bytes(experts)) }

// combine makes the prediction of output j the mean of the advice, with the standard error about
// it, sqrt(Σ w_k (σ_k² + (f_k − ŷ)²)) of the standard errors σ_k. The leverage grows by the part of
// the output in the mean leverage.
func (m *mixed) combine(p *model.Prediction, j int, advice, deviations, leverages []float64) {
	var room [MaxPrefixes]float64
	weights, variance := room[:len(advice)], 0.0
	m.mixture.Weights(weights, nil)
	p.Values[j] = mix.Mean(weights, advice)
	for k, w := range weights {
		off := advice[k] - p.Values[j]
		variance += float64(w * (float64(deviations[k]*deviations[k]) + float64(off*off)))
		p.Leverage += w * leverages[k] / float64(len(p.Values))
	}
	p.StandardErrors[j] = math.Sqrt(variance)
}

func (m *mixed) learn(advice []float64, y, weight float64) (prediction, loss float64) {
	var room [MaxPrefixes]float64
	weights := room[:len(advice)]
	m.mixture.Weights(weights, nil)
	prediction = mix.Mean(weights, advice)
	miss := prediction - y
	m.mixture.Update(float64(2*weight*miss), prediction, advice, nil)
	loss = float64(weight * float64(miss*miss))
	m.loss.Add(loss)
	return prediction, loss
}

// excess is ω((ŷ−y)² − (f−y)²), without the cancellation of the two.
func excess(prediction, f, y, weight float64) float64 {
	return float64(weight * float64((prediction-f)*((prediction-y)+(f-y))))
}

func appendMean(dst []float64, outputs []mixed) []float64 {
	var room [MaxPrefixes]float64
	from, weights := len(dst), room[:outputs[0].mixture.Experts()]
	for range weights {
		dst = append(dst, 0)
	}
	for j := range outputs {
		outputs[j].mixture.Weights(weights, nil)
		for k, w := range weights {
			dst[from+k] += w / float64(len(outputs))
		}
	}
	return dst
}

func (m *mixed) visit(v *codec.Visitor) {
	m.mixture.Visit(v)
	v.Within(ledger.MaxSum, &m.loss.High, &m.loss.Low)
	if loss := m.loss.Value(); v.Reading() && !(loss >= 0) {
		v.Corrupt("a mixture lost %g", loss)
	}
}
