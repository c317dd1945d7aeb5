package auto

import (
	"math"

	"hindsight/internal/model/compensated"
)

// gated is what an output has behind a label gate.
type gated struct {
	// above are the last overshoots max(0, y − high), high that of before y; below are
	// those on the other side.
	above, below [overshoots]float64
	// lowest and highest are the widest floor and ceiling so far: all advice was between.
	lowest, highest float64
	// passed are the losses of the experts on the rows that the gate did not let in.
	passed []compensated.Sum
}

const (
	// So many labels in a row have to leave the range on one side before
	// advice may leave it.
	overshoots = 3
	// Advice may leave the range by overshootFactor times the least of these.
	overshootFactor = 2
)

// overshoot takes in a label, given the range of the labels before it.
func (g *gated) overshoot(y, low, high float64) {
	copy(g.above[1:], g.above[:overshoots-1])
	copy(g.below[1:], g.below[:overshoots-1])
	g.above[0], g.below[0] = math.Max(0, y-high), math.Max(0, low-y)
}

// reach finds what advice is cut to after n labels: the range of the labels, and behind a
// gate, from lastStage labels on, beyond it on the side on which each of the last three
// labels left it. A line that rises for ever is then followed, and one label that towers
// over the others moves nothing.
func (m *mixer) reach(n uint64) {
	m.floor, m.ceiling = m.low, m.high
	g := m.gated
	if g == nil {
		return
	}
	if n >= lastStage {
		m.floor -= overshootFactor * least(g.below)
		m.ceiling += overshootFactor * least(g.above)
	}
	if n == 1 {
		g.lowest, g.highest = m.floor, m.ceiling
	}
	g.lowest, g.highest = math.Min(g.lowest, m.floor), math.Max(g.highest, m.ceiling)
}

func least(values [overshoots]float64) float64 {
	return math.Min(values[0], math.Min(values[1], values[2]))
}

// widest is the range that all advice was in.
func (m *mixer) widest() (low, high float64) {
	if m.gated == nil {
		return m.low, m.high
	}
	return m.gated.lowest, m.gated.highest
}

// AdviceSize is the length of Prediction.Advice.
func AdviceSize(o Options) int {
	return 1 + o.remembered()*o.Outputs + o.Outputs*outputAdvice(o.plan().experts())
}

// Pass takes a row that was predicted and that the gate did not let in into the losses of
// the experts. Advice is Prediction.Advice of that moment. It needs exclusive access, and
// the option Gated.
func (l *Learner) Pass(y []float64, weight float64, advice []float64) {
	a := l.read(advice)
	for j := range l.mixers {
		_, experts, _, _ := a.of(j)
		for k, f := range experts {
			l.mixers[j].gated.passed[k].Add(squared(f, y[j], weight))
		}
	}
}

// Passed is the loss, on the rows that were passed, of the expert of each output that has
// lost least on the rows that were learned.
func (l *Learner) Passed() float64 {
	total, k := 0.0, l.plan.experts()
	for j := range l.mixers {
		m := &l.mixers[j]
		total += m.gated.passed[m.account.best(k)].Value()
	}
	return total
}

// HindsightOf is the loss of these experts on one such row.
func (l *Learner) HindsightOf(y []float64, weight float64, advice []float64) float64 {
	total, k, a := 0.0, l.plan.experts(), l.read(advice)
	for j := range l.mixers {
		_, experts, _, _ := a.of(j)
		total += squared(experts[l.mixers[j].account.best(k)], y[j], weight)
	}
	return total
}
