package auto

import "hindsight/internal/model"

// Experts is K.
func (l *Learner) Experts() int { return l.plan.experts() }

// Served is what the experts of the only output predicted, of the advice.
func (l *Learner) Served(advice []float64) []float64 {
	a := l.read(advice)
	_, experts, _, _ := a.level1.of(0)
	return experts
}

// LabelScale is s of an output.
func (l *Learner) LabelScale(output int) float64 { return l.mixers[output].scale }

// PlanCosts are the multiply-adds and the experts of every plan.
func PlanCosts(o Options) (flops []uint64, experts []int) {
	for _, p := range plans() {
		flops, experts = append(flops, o.observeFlops(p)), append(experts, p.experts())
	}
	return flops, experts
}

// Quantile is the k-th smallest.
func Quantile(values []float64, k int) float64 { return quantile(values, k) }

// NewLevel1 is a learner without a lineup.
func NewLevel1(o Options) *Learner { return newLearner(o, lineup{}) }

// Level1Cost is the most that a learner without a lineup costs.
func Level1Cost(o Options) model.Cost { return o.cost(lineup{}) }

// HasLineup tells whether the budget has room for a lineup.
func HasLineup(o Options) bool { return !o.lineup().empty() }

// Said is what the experts of level 2 and its finalists said in advice of the only output: v
// and the experts of both levels; v, b and the stacks; and the prediction. It is not ok while
// level 2 sleeps.
func (l *Learner) Said(numbers []float64) (experts, final []float64, value float64, ok bool) {
	a := l.read(numbers)
	_, level1, _, v := a.level1.of(0)
	experts = append([]float64{v}, level1...)
	if !l.awake() {
		return experts, nil, v, false
	}
	_, lineup, final, value := a.level2.of(0)
	return append(experts, lineup...), final, value, true
}

// FollowedUnit is the unit of the stacks after labels of a deviation.
func FollowedUnit(unit, deviation float64) float64 {
	return units{stackScale: unit}.followed(deviation)
}
