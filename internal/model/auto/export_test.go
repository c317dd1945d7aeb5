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
