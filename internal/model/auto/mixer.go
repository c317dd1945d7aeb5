package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

const (
	ridge      = 0.01 // λ of the forecasters.
	stackRidge = 3    // λ of the stacks.
	decay      = 1e-4 // λ of the first-order learners.
)

// mixer is level 1 of an output.
type mixer struct {
	stacked
	// units: lowest <= floor <= bottom <= low <= high <= top <= ceiling <= highest.
	units
	// low and high are the range of the labels of rows that are not model.Light. atLow and atHigh are Σω of
	// their rows.
	low, high, atLow, atHigh float64
	reach
	// passed are the losses of the experts on the rows that a gate before the learner did not
	// admit.
	passed []compensated.Sum
	// mean is the mean of the labels, recent the exponentially weighted one: a row takes ω of the
	// step.
	mean, recent float64
	// signs says that all labels are −1 or 1.
	signs bool
	// calibration follows the predictions of both levels.
	calibration calibration
	account     account
}

func newMixer(experts int) mixer {
	return mixer{
		stacked: newStacked(experts, finalists), units: units{scale: 1, stackScale: 1}, passed: make([]compensated.Sum, experts), signs: true,
		calibration: newCalibration(), account: newAccount(experts + finalists),
	}
}

// observe learns the n-th label, from 1, of row r, given Σω of all rows.
func (m *mixer) observe(y float64, n uint64, counted float64, r row) {
	heavy := r.counts >= model.Light
	if n > 1 && heavy {
		m.overshoot(y, m.low, m.high)
	}
	m.mean += float64(r.counts*(y-m.mean)) / counted
	if n == 1 {
		m.low, m.high, m.recent, m.atLow, m.atHigh = y, y, y, r.counts, r.counts
	} else {
		if heavy {
			m.low, m.atLow = extended(m.low, m.atLow, y, r.counts, y < m.low)
			m.high, m.atHigh = extended(m.high, m.atHigh, y, r.counts, y > m.high)
		}
		step := float64(r.counts * (1 - discount))
		m.recent = float64((1-step)*m.recent) + float64(step*y)
	}
	m.signs = m.signs && math.Abs(y) == 1
	m.cutAfter(n, counted)
	m.widen(n)
}
