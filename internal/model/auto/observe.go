package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

// Observe allocates at the stages alone.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	l.learnNow(o, x, y, weight)
	return nil
}

func (l *Learner) learnNow(o *model.Outcome, x, y []float64, weight float64) {
	l.present(l.own, x, l.lags, l.n)
	l.learn(o, row{x: x, y: y, weight: weight}, nil)
}

// learn learns an observation whose columns are in the scratch, served being its stale advice or
// nil.
func (l *Learner) learn(o *model.Outcome, r row, served *advice) {
	s, now := l.own, stageAfter(l.n)
	l.baselines(s)
	l.n++
	r.counts = l.weights.Add(r.weight)
	l.counted += r.counts
	if now == complete {
		l.rotate(s, r)
		if served == nil || stageAfter(served.seen) == complete {
			l.stackRounds++
		}
	}
	o.Resize(l.o.Outputs)
	o.Loss, o.Regret = 0, 0
	for j := range l.mixers {
		o.Loss += l.learnOutput(s, j, r, now, served)
		o.Predictions[j] = s.values[j]
		o.Regret += l.mixers[j].account.regret(l.plan.experts())
	}
	l.inputs.add(r.x, r.counts, l.counted)
	l.labels.add(r.y, r.counts, l.counted)
	l.keep(r, s)
	k := l.o.Outputs
	copy(l.lags[k:], l.lags[:len(l.lags)-k])
	if r.counts >= model.Light { // Else the last label stands twice.
		copy(l.lags, r.y)
	}
	l.advance()
}

// rotate teaches the row to every expert but the baselines, and writes their advice of before.
func (l *Learner) rotate(s *scratch, r row) {
	for i := range l.experts {
		e := &l.experts[i]
		z := s.z[:e.features.size]
		e.features.fill(z, s, &l.bandwidths)
		if len(e.factors) > 0 {
			l.rotateFactors(s, e, z, r)
		}
		if len(e.descents) > 0 {
			l.descendAll(s, e, z, r)
		}
	}
}

// earlier is q = zᵀA⁻¹z before a rotation of √w z.
func earlier(r qr.Rotation, weight float64) float64 {
	return r.Leverage / float64(float64(r.Gamma*r.Gamma)*weight)
}

func (l *Learner) rotateFactors(s *scratch, e *expertMap, z []float64, r row) {
	size, root := len(z), math.Sqrt(r.weight)
	first := s.rows[:size+2*l.o.Outputs]
	copy(first, z)
	for j, y := range r.y {
		label := l.mixers[j].scaledLabel(y)
		first[size+2*j] = label
		first[size+2*j+1] = label - s.last[j]
	}
	if root != 1 {
		loops.Scale(first, root)
	}
	for f, factor := range e.factors {
		t := &s.turns[f]
		t.Factor, t.Row, t.Root = factor, s.turned[f][len(s.turned[f])-len(first):], math.Sqrt(l.plan.forgettings[f])
		copy(t.Row, first)
	}
	qr.RotateTogether(s.turns)
	for f, factor := range e.factors {
		t := &s.turns[f]
		for i := range t.Priors {
			t.Priors[i] /= root // The row is √w z.
		}
		l.advise(s, e.at+2*f, t.Priors, earlier(t.Rotation, r.weight))
		e.renewals[f].renew(factor, ridge, l.n, t.Row, t.Priors)
	}
}

func (l *Learner) descendAll(s *scratch, e *expertMap, z []float64, r row) {
	z, norm := e.features.slope(z)
	k := l.plan.experts()
	for d, theta := range e.descents {
		for j := range l.mixers {
			m, own := &l.mixers[j], theta[j*len(z):][:len(z)]
			prediction := loops.Dot(own, z)
			s.advice[j*k+e.descentAt+d] = m.label(prediction)
			descend(own, z, descentSteps()[d], norm, prediction, m.scaledLabel(r.y[j]), r.weight)
		}
	}
}

// learnOutput mixes the advice of an output, learns its label, and returns the loss.
func (l *Learner) learnOutput(s *scratch, j int, r row, now stage, served *advice) float64 {
	k, y := l.plan.experts(), r.y[j]
	m, advice, final := &l.mixers[j], s.advice[j*k:][:k], s.final[j*finalists:][:finalists]
	m.base.Weights(s.weights, s.awake[now])
	mixed := mix.Mean(s.weights, advice)
	for i := range final {
		final[i] = mixed
	}
	switch {
	case now == complete && served == nil:
		m.rotate(&s.stack, m.units, &l.stackRenewals, l.stackRounds, advice, mixed, m.residual, y, r.weight)
		s.stack.predicted(m.units, final, r.weight)
	case now == complete:
		m.solve(&s.stack, m.units, advice, final)
	}
	m.final.Weights(s.weights[:finalists], s.finalAwake[now])
	value := mix.Mean(s.weights[:finalists], final)
	s.values[j] = value
	loss := squared(value, y, r.weight)
	m.account.add(y, r.weight, loss, advice, final, now)
	if served != nil {
		// From here on the served predictions are mixed.
		var residual float64
		now = stageAfter(served.seen)
		residual, advice, final, value = served.of(j)
		mixed = final[0]
		if now == complete {
			m.rotate(&s.stack, m.units, &l.stackRenewals, l.stackRounds, advice, mixed, residual, y, r.weight)
		}
	}
	m.learn(s, advice, final, value, y, r.weight, now)
	m.observe(y, l.n, value, r)
	return loss
}

// learn teaches the mixtures the label of what they mixed.
func (m *mixer) learn(s *scratch, advice, final []float64, value, y, weight float64, then stage) {
	m.base.Update(float64(2*weight)*(final[0]-y), final[0], advice, s.awake[then])
	m.final.Update(float64(2*weight)*(value-y), value, final, s.finalAwake[then])
	m.residual = y - final[0]
}
