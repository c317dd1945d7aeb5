// Package bounds keeps the predictions of a learner of the squared loss within the bounds of
// the labels: it serves the projection P(ŷ) of each prediction ŷ onto [Min, Max]. The learner
// learns as it would alone, and the projection saves
//
//	g = ω((ŷ − y)² − (P(ŷ) − y)²) >= 0
//
// in each round, because y lies in [Min, Max]. Loss and regret are the loss and regret of P(ŷ), less than
// the learner's by the sum of g: its bound holds for them, and its certificate less the sum of g.
package bounds

import (
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
)

// Options describe the learner behind the bounds.
type Options struct {
	Label *model.Label
	// Forgetting is the learner's factor, 1 for none.
	Forgetting float64
	// New makes a learner that has seen nothing. All of them are the same.
	New func() model.Learner
}

// Learner is a learner behind bounds.
type Learner struct {
	o     Options
	inner model.Learner
	// The sums are Σ g and Σ f^(t−s) g, f the factor of the learner.
	loss, regret compensated.Sum
}

// New returns a bounded learner that has seen nothing.
func New(o Options) *Learner { return &Learner{o: o, inner: o.New()} }

// Inner is the learner behind the bounds.
func (l *Learner) Inner() model.Learner { return l.inner }

// Predict projects the learner's prediction. What each family of experts contributes adds up
// to the prediction before the projection.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.inner.Predict(p, x); err != nil {
		return err
	}
	l.projectValues(p)
	return nil
}

// PredictAll is Predict of every input.
func (l *Learner) PredictAll(p []*model.Prediction, x [][]float64) error {
	if err := model.PredictAll(l.inner, p, x); err != nil {
		return err
	}
	for n := range x {
		l.projectValues(p[n])
	}
	return nil
}

func (l *Learner) projectValues(p *model.Prediction) {
	for j, v := range p.Values {
		p.Values[j] = l.o.Label.Project(v)
	}
}

// Check also rejects labels that are not possible.
func (l *Learner) Check(x, y []float64, weight float64) error {
	if err := l.inner.Check(x, y, weight); err != nil {
		return err
	}
	return l.o.Label.Check(y)
}

// Observe costs O(k) beside the learner's.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	return l.ObserveAdvised(o, x, y, weight, nil)
}

// ObserveAdvised is Observe of an input that was predicted before.
func (l *Learner) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, advice []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	if err := model.ObserveAdvised(l.inner, o, x, y, weight, advice); err != nil {
		return err
	}
	l.project(o, y, weight)
	return nil
}

// Together is the learner's.
func (l *Learner) Together() int { return model.Together(l.inner) }

// ObserveAll teaches the observations to the learner together and projects each outcome.
func (l *Learner) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(l, all); err != nil {
		return err
	}
	if err := model.ObserveAll(l.inner, outcomes, all); err != nil {
		return err
	}
	for n := range all {
		l.project(&outcomes[n], all[n].Y, all[n].Weight)
	}
	return nil
}

func (l *Learner) project(o *model.Outcome, y []float64, weight float64) {
	gain := 0.0
	for j, v := range o.Predictions {
		shown := l.o.Label.Project(v)
		// (v − y)² − (shown − y)², without their cancellation.
		gain += float64(weight * float64((v-shown)*((v-y[j])+(shown-y[j]))))
		o.Predictions[j] = shown
	}
	l.loss.Add(gain)
	if l.o.Forgetting != 1 {
		l.regret.Scale(l.o.Forgetting)
	}
	l.regret.Add(gain)
	o.Loss, o.Regret = 0, o.Regret-l.regret.Value()
	for j, v := range o.Predictions {
		o.Loss += float64(weight * model.LossOf(l.inner, v, y[j]))
	}
}

// Stats costs O(1) beside the learner's.
func (l *Learner) Stats() model.Stats {
	s := l.inner.Stats()
	s.Loss -= l.loss.Value()
	s.Regret -= l.regret.Value()
	if s.Certified {
		s.Certificate -= l.regret.Value()
	}
	s.StateBytes = l.Size()
	return s
}

// Report is the learner's with the regret of the projected predictions.
func (l *Learner) Report(o model.ReportOptions) model.Report {
	r := l.inner.Report(o)
	r.Regret -= l.regret.Value()
	r.RegretUnpenalized -= l.regret.Value()
	r.RegretRKHS -= l.regret.Value()
	r.Certificate -= l.regret.Value()
	for m := range r.SwitchingRegret {
		r.SwitchingRegret[m] -= l.regret.Value()
	}
	return r
}

// OwnBytes is the memory beside the learner's.
const OwnBytes = 96

// Size is the memory of the state.
func (l *Learner) Size() uint64 { return l.inner.Size() + OwnBytes }

// maxSum bounds sums of losses: labels are within 1e100, predictions of any learner within 1e120.
const maxSum = 1e290

// Visit visits the two sums, then the state of the learner.
func (l *Learner) Visit(v *codec.Visitor) {
	v.Within(maxSum, &l.loss.High, &l.loss.Low, &l.regret.High, &l.regret.Low)
	l.inner.Visit(v)
}
