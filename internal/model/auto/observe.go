package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// Observe allocates at the stages alone.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	l.learn(o, row{x: x, y: y, weight: weight}, nil)
	return nil
}

// ObserveAdvised is Observe of an input that was predicted before. If labels came since, the
// experts learn with the lags and v of the served prediction, and the mixtures and stacks
// learn from the served predictions of what they mix, and from the predictions of level 2 unless level 2 slept.
// The outcome stays prequential: the present weights, applied to the columns of the served
// prediction. With present advice, and with numbers that are no advice of the learner, it is
// Observe; present advice saves the search for neighbors.
func (l *Learner) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, numbers []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	r := row{x: x, y: y, weight: weight}
	a, ok := l.given(numbers)
	switch {
	case !ok:
		l.learn(o, r, nil)
	case a.seen < l.n:
		l.learn(o, r, &a)
	default:
		if l.scratch.level2 != nil {
			l.scratch.level2.present = a.level2
			defer func() { l.scratch.level2.present = block{} }()
		}
		l.learn(o, r, nil)
	}
	return nil
}

// learn learns an observation, served being its stale advice or nil.
func (l *Learner) learn(o *model.Outcome, r row, served *advice) {
	s := l.scratch
	r.x = l.split(s, r.x)
	if l.awake() {
		l.measure(s.level2)
	}
	l.simulate(s, r.x)
	if served == nil {
		l.present(s, r.x, l.lags, l.n)
	} else {
		l.late = true
		l.present(s, r.x, served.lags, served.seen)
	}
	if l.keyed != nil {
		l.findKeys(s, served)
	}
	n, opens := l.n, l.opens()
	if opens {
		l.ask(s)
	}
	r.seen, r.counts = s.seen, l.weights.Add(r.weight)
	l.learnLevel1(o, r, served)
	if l.keyed != nil {
		l.learnKeys(o, r, served)
	}
	switch {
	case l.awake():
		l.learnLevel2(o, r, served)
		for _, m := range l.memories {
			m.change(l.inputs.Changes(), l)
		}
	case !l.lineup.empty():
		l.sleep(o, r)
	}
	if l.keyed != nil {
		l.learnEffects(r)
	}
	l.learnStale(s, o.Predictions, r, served)
	if opens {
		o.Loss = l.learnOpening(o.Predictions, r, served, n)
	}
	if l.ridges > 0 {
		o.Regret = 0
		for j := range l.mixers {
			o.Regret += l.regretOf(j, l.best(j))
		}
	}
	if l.screen != nil {
		l.rescreen()
	}
	if l.n == l.keptEnd() {
		l.kept = nil
	}
	for j := range l.mixers {
		if m := &l.mixers[j]; m.signs {
			m.calibration.learn(s.answers[j], r.y[j], r.weight)
		}
	}
}

// learnLevel1 learns an observation whose columns are in the scratch. The predictions that
// were served are left there as answers.
func (l *Learner) learnLevel1(o *model.Outcome, r row, served *advice) {
	s, now := l.scratch, stageAfter(l.n)
	l.baselines(s, true)
	l.n++
	if r.seen > 0 {
		l.lagged = min(l.lagged+1, laggedRows)
	}
	l.counted += r.counts
	if now == complete {
		l.absorbAll(s, r, served == nil && l.take(s, r.x))
		if served == nil || stageAfter(served.seen) == complete {
			l.stackRounds++
		}
	}
	o.Resize(l.o.Outputs)
	o.Loss, o.Regret = 0, 0
	for j := range l.mixers {
		o.Loss += l.learnOutput(s, j, r, now, served)
		o.Predictions[j] = s.values[j]
		a := &l.mixers[j].account
		o.Regret += a.experts[a.best(l.plan.experts())].Regret.Value()
	}
	l.inputs.add(r.x, r.counts)
	l.labels.add(r.y, r.counts)
	l.keep(r, s)
	k := l.o.Outputs
	copy(l.lags[k:], l.lags[:len(l.lags)-k])
	if r.counts >= model.Light { // Else the last label stands twice.
		copy(l.lags, r.y)
	}
	l.advance()
	if l.n > uint64(min(lastStage, l.o.last())) {
		for j := range l.mixers {
			if m := &l.mixers[j]; !m.signs {
				m.stackScale = m.followed(l.labels.scale[j])
			}
		}
	}
}

// absorb teaches the row to every expert but the baselines, and writes their advice of before. If known, the
// solutions are in the scratch.
func (l *Learner) absorb(s *scratch, r row, known bool) {
	for i := range l.experts {
		if !known {
			l.solveMap(s, i)
		}
		l.adviseFactors(s, i)
		e, m := &l.experts[i], &s.solved.maps[i]
		if len(e.factors) > 0 {
			l.absorbFactors(s, e, m, r)
		}
		if len(e.descents) > 0 {
			l.descendAll(s, e, m.z, r)
		}
	}
}

// absorbAll is absorb with the regressions on all inputs.
func (l *Learner) absorbAll(s *scratch, r row, known bool) {
	l.absorb(s, r, known)
	if l.screen != nil {
		l.adviseWide(s)
		l.learnWide(s, r)
	}
}

// earlier is q = zᵀA⁻¹z before a rotation of √w z.
func earlier(r qr.Rotation, weight float64) float64 {
	return r.Leverage / float64(float64(r.Gamma*r.Gamma)*weight)
}

// absorbFactors overwrites the solutions.
func (l *Learner) absorbFactors(s *scratch, e *expertMap, m *solvedMap, r row) {
	size, root := len(m.z), math.Sqrt(r.weight)
	first, turned := s.row[:size+2*l.o.Outputs], s.absorbed[len(s.absorbed)-size-2*l.o.Outputs:]
	copy(first, m.z)
	for j, y := range r.y {
		label := l.mixers[j].scaledLabel(y)
		first[size+2*j] = label
		first[size+2*j+1] = label - s.last[j]
	}
	if root != 1 {
		loops.Scale(first, root)
	}
	for f, factor := range e.factors {
		v := m.factors[f].Z
		if root != 1 {
			loops.Scale(v, root)
		}
		copy(turned, first)
		factor.AbsorbDiscounted(turned, v, s.room[:qr.AbsorbRoom(size)], math.Sqrt(l.plan.forgettings[f]))
		e.renewals[f].renew(factor, ridge, l.n, turned, m.factors[f].Priors)
	}
}

func (l *Learner) descendAll(s *scratch, e *expertMap, z []float64, r row) {
	z, norm := e.features.slope(z)
	k := l.plan.experts()
	for d, theta := range e.descents {
		for j := range l.mixers {
			m, weights := &l.mixers[j], theta[j*len(z):][:len(z)]
			prediction := loops.Dot(weights, z)
			s.advice[j*k+e.descentAt+d] = m.label(prediction)
			descend(weights, z, descentSteps()[d], norm, prediction, m.scaledLabel(r.y[j]), r.weight)
		}
	}
}

// learnOutput mixes the advice of an output, learns its label, and returns the loss.
func (l *Learner) learnOutput(s *scratch, j int, r row, now stage, served *advice) float64 {
	k, y := l.plan.experts(), r.y[j]
	m, advice, final := &l.mixers[j], s.advice[j*k:][:k], s.final[j*finalists:][:finalists]
	mixed := m.mixBase(s.weights, advice, s.awake[now])
	for i := range final {
		final[i] = mixed
	}
	switch {
	case now == complete && served == nil:
		m.rotate(&s.stack, m.units, &l.stackRenewals, l.stackRounds, advice, mixed, m.residual, y, r.weight)
		s.stack.predicted(m.units, final, r.weight)
	case now == complete:
		m.solve(&s.stack, asked{m.units, advice, final, m.residual})
	}
	value := m.value(m.mixFinal(s.weights, final, s.finalAwake[now]))
	s.values[j] = value
	loss := squared(value, y, r.weight)
	m.account.add(y, r.weight, loss, advice, final, now)
	if served != nil {
		// From here on the served predictions are mixed.
		var residual float64
		now = stageAfter(served.seen)
		residual, advice, final, value = served.level1.of(j)
		mixed = final[0]
		if now == complete {
			m.rotate(&s.stack, m.units, &l.stackRenewals, l.stackRounds, advice, mixed, residual, y, r.weight)
		}
	}
	m.learn(advice, final, mixed, value, y, r.weight, s.awake[now], s.finalAwake[now])
	m.observe(y, l.n, l.counted, r)
	s.answers[j] = value
	return loss
}
