package auto

// Base and experts for experiments.
func (l *Learner) Losses() (float64, float64, []float64, []string) {
	a := l.mixers[0].account
	out := []float64{}
	for _, v := range a.losses {
		out = append(out, v.Value())
	}
	return a.loss.Value(), 0, out, l.plan.names()
}
func (l *Learner) Stats0() int { return int(l.n) }
