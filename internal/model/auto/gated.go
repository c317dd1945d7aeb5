package auto

import (
	"math"

	"hindsight/internal/model/compensated"
)

// gated is the part of an output's state that only a gated learner has.
type gated struct {
	// above are the last overshoots max(0, y − high), high being the one before y. below are
	// the overshoots on the other side.
	above, below [overshoots]float64
	// lowest and highest are the widest floor and ceiling so far: lowest <= advice <= highest.
	lowest, highest float64
	// passed are the losses of the experts on the rows that the gate did not admit.
	passed []compensated.Sum
}

const (
	// Advice may leave the range of the labels on a side on which the last overshoots
	// labels left it, by overshootFactor times their least overshoot.
	overshoots      = 3
	overshootFactor = 2
)

// overshoot adds a label, given the range of the labels before.
func (g *gated) overshoot(y, low, high float64) {
	copy(g.above[1:], g.above[:overshoots-1])
	copy(g.below[1:], g.below[:overshoots-1])
	g.above[0], g.below[0] = math.Max(0, y-high), math.Max(0, low-y)
}

// reach sets the range that advice is cut to after n labels: the range of the labels and, of
// a gated learner from lastStage labels on, beyond it where the last three labels left it. So
// the learner follows a line that rises for ever, and one outlier moves nothing.
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
}

// widen adds the range that advice is cut to after n labels to the widest one.
func (m *mixer) widen(n uint64) {
	g := m.gated
	if g == nil {
		return
	}
	if n == 1 {
		g.lowest, g.highest = m.floor, m.ceiling
	}
	g.lowest, g.highest = math.Min(g.lowest, m.floor), math.Max(g.highest, m.ceiling)
}

func least(values [overshoots]float64) float64 {
	return math.Min(values[0], math.Min(values[1], values[2]))
}

// widest is a range of all advice so far.
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

// Pass adds a row that was predicted and that the gate did not admit to the losses of the
// experts. Advice is the Prediction.Advice of the row. It needs exclusive access, and the
// option Gated.
func (l *Learner) Pass(y []float64, weight float64, advice []float64) {
	a := l.read(advice)
	for j := range l.mixers {
		_, experts, _, _ := a.of(j)
		for k, f := range experts {
			l.mixers[j].gated.passed[k].Add(squared(f, y[j], weight))
		}
	}
}

// Passed is the loss, on the passed rows, of each output's best expert on the learned rows.
func (l *Learner) Passed() float64 {
	total, k := 0.0, l.plan.experts()
	for j := range l.mixers {
		m := &l.mixers[j]
		total += m.gated.passed[m.account.best(k)].Value()
	}
	return total
}

// HindsightOf is the loss of the best experts on one such row.
func (l *Learner) HindsightOf(y []float64, weight float64, advice []float64) float64 {
	total, k, a := 0.0, l.plan.experts(), l.read(advice)
	for j := range l.mixers {
		_, experts, _, _ := a.of(j)
		total += squared(experts[l.mixers[j].account.best(k)], y[j], weight)
	}
	return total
}
