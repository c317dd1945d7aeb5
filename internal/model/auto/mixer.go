package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/mix"
)

const (
	ridge      = 0.01 // λ of the forecasters.
	stackRidge = 3    // λ of the stacks.
	decay      = 1e-4 // λ of the first-order learners.
)

// mixer is the state of an output: the mixture b of the experts, the stacks over b, and the
// final mixture.
type mixer struct {
	stacked
	// units: floor <= low <= high <= ceiling.
	units
	final *mix.Mixture
	// low and high are the range of the labels of rows that are not model.Light.
	low, high float64
	// gated is nil unless the options say so.
	gated *gated
	// recent is the exponentially weighted mean of the labels: a row takes ω of the step.
	recent float64
	// signs says that all labels are −1 or 1.
	signs       bool
	calibration calibration
	account     account
}

func newMixer(experts int, o Options) mixer {
	m := mixer{
		stacked: newStacked(experts), units: units{scale: 1}, final: mix.New(finalists), signs: true,
		calibration: newCalibration(), account: newAccount(experts),
	}
	if o.Gated {
		m.gated = &gated{passed: make([]compensated.Sum, experts)}
	}
	return m
}

// observe learns the n-th label, from 1, of row r, value being its prediction.
func (m *mixer) observe(y float64, n uint64, value float64, r row) {
	heavy := r.counts >= model.Light
	if m.gated != nil && n > 1 && heavy {
		m.gated.overshoot(y, m.low, m.high)
	}
	if n == 1 {
		m.low, m.high, m.recent = y, y, y
	} else {
		if heavy {
			m.low, m.high = math.Min(m.low, y), math.Max(m.high, y)
		}
		step := float64(r.counts * (1 - discount))
		m.recent = float64((1-step)*m.recent) + float64(step*y)
	}
	m.reach(n)
	m.widen(n)
	if m.signs = m.signs && math.Abs(y) == 1; m.signs {
		m.calibration.learn(value, y, r.weight)
	}
}
