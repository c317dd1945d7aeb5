package machine

import (
	"math"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/history"
	"hindsight/internal/model"
)

func (m *Machine) shape() history.Shape {
	return history.Shape{Classes: m.classifier != nil, Levels: len(m.spec.Coverage)}
}

func (m *Machine) record(p *account.Performance, c *classes.Performance, changed bool) {
	if changed {
		last := m.account.Change()
		m.history.Mark(history.Mark{Sequence: last.Change, Time: m.account.Time, Rise: last.Rise})
	}
	if m.history.Observe(p, c) {
		m.measure(&m.moment)
		m.history.Complete(&m.moment)
	}
}

// measure fills in the present moment, at a cost of O(r). It allocates nothing when the
// moment has room. A regret that Stats does not know is NaN.
func (m *Machine) measure(now *history.Moment) {
	now.Time, now.Regret, now.RegretBound, now.Dictionary = m.account.Time, math.NaN(), math.NaN(), 0
	now.Counts, now.Weights = m.account.Counts(now.Counts[:0]), now.Weights[:0]
	stats, err := m.Stats()
	if err != nil {
		return // A panic in Stats must not stop the model.
	}
	now.Regret, now.Dictionary = stats.Regret, stats.Dictionary
	if stats.Certified {
		now.RegretBound = stats.RegretBound
	}
	now.Weights = appendWeights(m.learner, now.Weights)
}

// appendWeights appends the weights of the experts, or returns nil if the learner panics.
func appendWeights(l model.Learner, dst []float64) (weights []float64) {
	var err error
	defer contain("tell the weights", &err)
	return model.AppendWeights(l, dst)
}

// History returns a copy of the history, at a cost of its size.
func (m *Machine) History() *history.History { return m.history.Clone() }

// Moment returns the present moment, at a cost of O(r).
func (m *Machine) Moment() *history.Moment {
	now := new(history.Moment)
	m.measure(now)
	return now
}

// Completed returns the sequence of the newest complete point of the history.
func (m *Machine) Completed() uint64 { return m.history.Completed() }

// ExpertNames returns the names of the experts in the order of the weights of the
// history.
func (m *Machine) ExpertNames() []string {
	names := model.WeightNames(m.learner)
	return names[:min(len(names), history.MaxExperts)]
}
