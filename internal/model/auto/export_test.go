package auto

// Experts is K.
func (l *Learner) Experts() int { return l.plan.experts() }

// Served is what the experts of the only output predicted, of the advice.
func (l *Learner) Served(advice []float64) []float64 {
	a := advice[1+len(l.lags):]
	return a[1:][:l.plan.experts()]
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

// First is level 1.
func (l *Second) First() *Learner { return l.first }

// Said is what the experts of level 2 and its finalists said in advice of the only output: v
// and the experts of both levels; v, b and the stacks; and the prediction. It is not ok while
// level 2 sleeps.
func (l *Second) Said(numbers []float64) (experts, final []float64, value float64, ok bool) {
	a, second := l.split(numbers)
	_, first, _, v := a.of(0)
	experts = append([]float64{v}, first...)
	if len(second) == 0 {
		return experts, nil, v, false
	}
	_, lineup, final, value := l.part(second, 0)
	return append(experts, lineup...), final, value, true
}
