package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/mlpoly"
	"hindsight/internal/model/qr"
)

func mix(weights, advice []float64) float64 { return mlpoly.Mix(weights, advice) }

// Observe learns an observation as one that was predicted now. It allocates
// nothing but at the stages.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	l.present(l.own, x, l.lags, l.n)
	l.learn(o, row{x: x, y: y, weight: weight}, nil)
	return nil
}

// learn takes in an observation whose columns stand in the scratch. Served is
// what was advised, if that was not just now.
func (l *Learner) learn(o *model.Outcome, r row, served *advice) {
	s, now := l.own, stageAfter(l.n)
	l.n++
	l.baselines(s)
	if now == complete {
		l.rotate(s, r, true)
	}
	o.Resize(l.o.Outputs)
	o.Loss, o.Regret = 0, 0
	for j := range l.mixers {
		loss := l.learnOutput(s, j, r, now, served)
		o.Predictions[j] = s.values[j]
		o.Loss += loss
		o.Regret += l.mixers[j].account.regret(l.plan.experts())
	}
	l.inputs.add(r.x, l.n)
	l.labels.add(r.y, l.n)
	k := l.o.Outputs
	l.keep(r, s)
	copy(l.lags[k:], l.lags[:len(l.lags)-k])
	copy(l.lags, r.y)
	l.advance()
}

// rotate lets every expert but the baselines learn the row, and writes what
// they advised before.
func (l *Learner) rotate(s *scratch, r row, advise bool) {
	root := math.Sqrt(r.weight)
	for i := range l.experts {
		e := &l.experts[i]
		z := s.z[:e.features.size]
		e.features.fill(z, s.columns, s.affine, s.in, &l.bandwidths)
		if len(e.factors) > 0 {
			l.rotateFactors(s, e, z, r, root)
			for f := range e.factors {
				l.advise(s, e.at+2*f, s.turns[f].Priors, earlier(s.turns[f].Rotation, r.weight))
			}
		}
		if len(e.descents) > 0 {
			l.descendAll(s, e, z, r)
		}
	}
	_ = advise
}

// earlier is q = zᵀA⁻¹z of before, from a rotation of √w z.
func earlier(r qr.Rotation, weight float64) float64 {
	return r.Leverage / float64(float64(r.Gamma*r.Gamma)*weight)
}

func (l *Learner) rotateFactors(s *scratch, e *expertMap, z []float64, r row, root float64) {
	size := len(z)
	for f, factor := range e.factors {
		t := &s.turns[f]
		t.Factor, t.Row, t.Root = factor, t.Row[:size+2*l.o.Outputs], math.Sqrt(l.plan.forgettings[f])
		for i, v := range z {
			t.Row[i] = float64(root * v)
		}
		for j, y := range r.y {
			label := l.mixers[j].scaledLabel(y)
			t.Row[size+2*j] = float64(root * label)
			t.Row[size+2*j+1] = float64(root * (label - s.last[j]))
		}
	}
	qr.RotateTogether(s.turns)
	for f, factor := range e.factors {
		if forgetting := l.plan.forgettings[f]; forgetting < 1 {
			// Priors and rotation are read by those who asked.
			newRenewal(size, forgetting).renew(factor, ridge, l.n, s.turns[f].Row, make([]float64, 2*l.o.Outputs))
		}
	}
}

func (l *Learner) descendAll(s *scratch, e *expertMap, z []float64, r row) {
	norm, k := dot(z, z), l.plan.experts()
	for d, theta := range e.descents {
		at := e.descentAt + d
		for j := range l.mixers {
			m, own := &l.mixers[j], theta[j*len(z):][:len(z)]
			prediction := dot(own, z)
			s.advice[j*k+at] = m.label(prediction)
			descend(own, z, descentSteps()[d], norm, prediction, m.scaledLabel(r.y[j]), r.weight)
		}
	}
}

// learnOutput mixes the advice of an output, learns from its label, and answers
// the loss.
func (l *Learner) learnOutput(s *scratch, j int, r row, now stage, served *advice) float64 {
	k := l.plan.experts()
	m, advice, final, y := &l.mixers[j], s.advice[j*k:][:k], s.final[j*finalists:][:finalists], r.y[j]
	m.base.Weights(s.weights, s.awake[now])
	mixed := mix(s.weights, advice)
	for i := range final {
		final[i] = mixed
	}
	if now == complete {
		l.rotateStacks(s, m, advice, final, y, r.weight)
	}
	m.final.Weights(s.weights[:finalists], s.finalAwake[now])
	value := mix(s.weights[:finalists], final)
	s.values[j] = value
	loss := squared(value, y, r.weight)
	m.account.add(y, r.weight, loss, advice, final, now)
	m.base.Update(float64(2*r.weight)*(mixed-y), mixed, advice, s.awake[now])
	m.final.Update(float64(2*r.weight)*(value-y), value, final, s.finalAwake[now])
	m.residual = y - mixed
	m.observe(y, l.n)
	if m.signs && l.o.Outputs == 1 {
		m.calibration.learn(value, y, r.weight)
	}
	return loss
}

func (l *Learner) rotateStacks(s *scratch, m *mixer, advice, final []float64, y, weight float64) {
	root, mixed := math.Sqrt(weight), final[0]
	for i, f := range stackForgettings() {
		t := &s.stackTurns[i]
		t.Factor, t.Root = m.stacks[i], math.Sqrt(f)
		m.stackRow(t.Row, advice, mixed, m.residual)
		t.Row[len(t.Row)-1] = m.relative(y - mixed)
		if weight != 1 {
			stretch(t.Row, root)
		}
	}
	qr.RotateTogether(s.stackTurns)
	for i, f := range stackForgettings() {
		t := &s.stackTurns[i]
		final[1+i] = m.stacked(mixed, t.Priors[0], earlier(t.Rotation, weight))
		if f < 1 {
			newRenewal(len(t.Row)-1, f).renew(t.Factor, stackRidge, l.n, t.Row, make([]float64, 1))
		}
	}
}
