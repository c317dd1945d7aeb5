package engine_test

import (
	"context"
	"math"
	"reflect"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/model"
)

// learnedAs is what the plain model answers to an observation that is new.
func (m *meta) learnedAs(p *plainModel, id string, o engine.Observation, w *plainWaiting) engine.Answer {
	var out model.Outcome
	m.learn(p, &out, o, w)
	a := engine.Answer{Sequence: uint64(p.sequence() + 1), Predictions: out.Predictions, Loss: out.Loss, Regret: out.Regret}
	means, last := p.baselines()
	told := account.Figures{Loss: out.Loss}
	if w != nil {
		a.Served, a.ServedPredictions, a.ServedLoss = true, w.said.Values, m.lossOf(p, w.said.Values, o)
		told.Loss, means, last = a.ServedLoss, w.means, w.last
	}
	told.RunningMean, told.LastLabel = m.lossOf(p, means, o), m.lossOf(p, last, o)
	if id != "" {
		p.ids[id] = len(p.learned)
	}
	row := plainRow{observation: o, waited: w, told: told, at: m.clock.now().UnixNano()}
	p.history = append(p.history, row)
	// No run is long enough for an observation to leave the recent ones.
	sum := account.Figures{}
	scored := p.history[1:] // The first is not scored.
	for _, r := range scored {
		sum.Loss += r.told.Loss
		sum.RunningMean += r.told.RunningMean
		sum.LastLabel += r.told.LastLabel
	}
	a.Recent.Loss, a.Recent.Skill = sum.Loss/float64(len(scored)), 1-sum.Loss/min(sum.RunningMean, sum.LastLabel)
	row.answer = a
	p.learned = append(p.learned, row)
	return a
}

// learn lets the plain learner learn.
func (m *meta) learn(p *plainModel, out *model.Outcome, o engine.Observation, w *plainWaiting) {
	var err error
	if advised, ok := p.learner.(model.Advised); ok && w != nil {
		err = advised.ObserveAdvised(out, o.Features, o.Labels, o.Weight, w.said.Advice)
	} else {
		err = p.learner.Observe(out, o.Features, o.Labels, o.Weight)
	}
	if err != nil {
		m.fatalf("%v", err)
	}
}

// wait keeps a prediction until its label comes.
func (p *plainModel) wait(x []float64, said engine.Prediction, expiry time.Time) {
	w := plainWaiting{features: x, said: said, expiry: expiry}
	w.means, w.last = p.baselines()
	p.waiting[said.ID] = w
}

// baselines are the weighted mean of all labels, and the last one.
func (p *plainModel) baselines() (means, last []float64) {
	means, last = make([]float64, p.spec.Outputs), make([]float64, p.spec.Outputs)
	weights := 0.0
	for _, r := range p.history {
		weights += r.observation.Weight
		for j, y := range r.observation.Labels {
			means[j] += r.observation.Weight * y
			last[j] = y
		}
	}
	for j := range means {
		means[j] /= max(weights, 1e-300)
	}
	return means, last
}

// lossOf is the loss of predictions, times the weight.
func (m *meta) lossOf(p *plainModel, predictions []float64, o engine.Observation) (loss float64) {
	for j, y := range o.Labels {
		if scored, ok := p.learner.(model.Scored); ok {
			loss += o.Weight * scored.LossOf(predictions[j], y)
		} else {
			loss += o.Weight * (y - predictions[j]) * (y - predictions[j])
		}
	}
	return loss
}

// sameHistory compares the history of a model, of which no run has so many observations
// that two share a point, with all that was learned.
func (m *meta) sameHistory(name string, p *plainModel) {
	m.t.Helper()
	h, err := m.host.ModelHistory(context.Background(), name)
	if err != nil || len(h.Points) != len(p.history) {
		m.fatalf("%s has %d points of %d observations, %v", name, len(h.Points), len(p.history), err)
	}
	const digits = 1e-6
	for n, r := range p.history {
		got := h.Points[n]
		figures, told := got.Performance.Served, r.told
		if n == 0 {
			told = account.Figures{}
		}
		if got.Sequence != uint64(n+1) || got.Time != r.at || got.Performance.Observations != float64(min(n, 1)) ||
			!(math.Abs(figures.Loss-told.Loss) <= digits*told.Loss) ||
			!(math.Abs(figures.RunningMean-told.RunningMean) <= digits*told.RunningMean) ||
			!(math.Abs(figures.LastLabel-told.LastLabel) <= digits*told.LastLabel) {
			m.fatalf("%s: point %d is %+v, want %+v", name, n, got, r)
		}
	}
	if len(h.Points) == 0 {
		return
	}
	last, stats := h.Points[len(h.Points)-1], p.learner.Stats()
	if math.IsNaN(last.Regret) != math.IsNaN(stats.Regret) || math.Abs(last.Regret-stats.Regret) > digits*math.Abs(stats.Regret) || last.Dictionary != stats.Dictionary {
		m.fatalf("%s: the last point is %+v, want %+v", name, last, stats)
	}
	var weights []float64
	if mixing, ok := p.learner.(model.Mixing); ok {
		weights = mixing.AppendWeights(nil)
	}
	if len(weights) != len(last.Weights) || len(h.Experts) < len(weights) {
		m.fatalf("%s: %d weights of %d experts, want %d", name, len(last.Weights), len(h.Experts), len(weights))
	}
	for k, w := range weights {
		if math.Abs(last.Weights[k]-w) > 1.0/(1<<16) {
			m.fatalf("%s: %s weighs %g, want %g", name, h.Experts[k], last.Weights[k], w)
		}
	}
}

// same compares answers, whose regret may be unknown and whose recent figures are
// the plain model's to rounding.
func (m *meta) same(got, want engine.Answer, what string) {
	m.t.Helper()
	if got.Regret != got.Regret && want.Regret != want.Regret {
		got.Regret, want.Regret = 0, 0
	}
	if math.IsNaN(want.Recent.Loss) && math.IsNaN(got.Recent.Loss) && math.IsNaN(got.Recent.Skill) {
		want.Recent.Loss, want.Recent.Skill = 0, 0
		got.Recent = want.Recent
	}
	if near(got.Recent.Loss, want.Recent.Loss) && near(got.Recent.Skill, want.Recent.Skill) {
		got.Recent = want.Recent
	}
	if !reflect.DeepEqual(got, want) {
		m.fatalf("%s: answered %+v, want %+v", what, got, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }
