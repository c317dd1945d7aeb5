package auto

// Experts is K.
func (l *Learner) Experts() int { return l.plan.experts() }

// Served is what the experts of the only output predicted, of the advice.
func (l *Learner) Served(advice []float64) []float64 {
	a := advice[1+len(l.lags):]
	return a[1:][:l.plan.experts()]
}
