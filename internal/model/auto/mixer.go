package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

const (
	ridge      = 0.01 // λ of the forecasters.
	stackRidge = 3    // λ of the stacks.
	decay      = 1e-4 // λ of the first-order learners.
)

// mixer is the state of an output: the mixture b of the experts, the stacks over b, and the
// final mixture.
type mixer struct {
	base, final *mix.Mixture
	// stacks are forecasters of y − b over the experts, see stackRow.
	stacks [stacks]*qr.Factor
	// residual is the last y − b.
	residual float64
	// low and high are the range of the labels.
	low, high float64
	// floor and ceiling are what advice is cut to: floor <= low <= high <= ceiling.
	floor, ceiling float64
	// gated is nil unless the options say so.
	gated *gated
	// recent is the exponentially weighted mean of the labels.
	recent float64
	// The labels of the experts are (y − offset)/scale, as of the last stage.
	offset, scale float64
	// signs says that all labels are −1 or 1.
	signs       bool
	calibration calibration
	account     account
}

func newMixer(experts int, o Options) mixer {
	m := mixer{
		base: mix.New(experts), final: mix.New(finalists), scale: 1, signs: true,
		calibration: newCalibration(), account: newAccount(experts),
	}
	for i := range m.stacks {
		m.stacks[i] = qr.New(stackSize(experts), 1, stackRidge)
	}
	if o.Gated {
		m.gated = &gated{passed: make([]compensated.Sum, experts)}
	}
	return m
}

// stackSize is the number of features of a stack.
func stackSize(experts int) int { return experts + 2 }

// scaledLabel is a label in the units of the experts.
func (m *mixer) scaledLabel(y float64) float64 {
	return within((y-m.offset)/m.scale, -model.MaxMagnitude, model.MaxMagnitude)
}

// label is a prediction of an expert in the caller's units, cut to floor and ceiling.
func (m *mixer) label(scaled float64) float64 {
	return within(float64(scaled*m.scale)+m.offset, m.floor, m.ceiling)
}

// stackRow writes the features ((f_k − b)/s, residual/s, 1).
func (m *mixer) stackRow(row, advice []float64, mixed, residual float64) {
	for k, f := range advice {
		row[k] = m.relative(f - mixed)
	}
	row[len(advice)] = m.relative(residual)
	row[len(advice)+1] = 1
}

func (m *mixer) relative(v float64) float64 {
	return within(v/m.scale, -model.MaxMagnitude, model.MaxMagnitude)
}

// stacked is the prediction of a stack, given its ridge prediction p and q = zᵀA⁻¹z.
func (m *mixer) stacked(mixed, p, q float64) float64 {
	return within(mixed+float64(p/(1+q)*m.scale), m.floor, m.ceiling)
}

// observe learns the n-th label, from 1, value being its prediction.
func (m *mixer) observe(y float64, n uint64, value, weight float64) {
	if m.gated != nil && n > 1 {
		m.gated.overshoot(y, m.low, m.high)
	}
	if n == 1 {
		m.low, m.high, m.recent = y, y, y
	} else {
		m.low, m.high = math.Min(m.low, y), math.Max(m.high, y)
		m.recent = float64(discount*m.recent) + float64((1-discount)*y)
	}
	m.reach(n)
	if m.signs = m.signs && math.Abs(y) == 1; m.signs {
		m.calibration.learn(value, y, weight)
	}
}
