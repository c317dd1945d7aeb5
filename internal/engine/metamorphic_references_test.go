package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// plainFollower is a model that follows another.
type plainFollower struct {
	leader *plainModel
	from   int
	spec   model.Spec
	// mayStop: something has happened since that ends the following of one that had learned
	// enough.
	mayStop, deleted bool
}

// follow lets a new model follow another.
func (m *meta) follow() string {
	name, p := m.any()
	if p == nil || len(m.followers) > 2 {
		return ""
	}
	f := &plainFollower{leader: p, from: p.sequence(), spec: linear(2)}
	f.spec.Outputs = p.spec.Outputs
	id := fmt.Sprint("f", m.created)
	m.created++
	if _, err := m.host.Engine.CreateModel(context.Background(), id, f.spec, engine.CreateOptions{Follows: name}); err != nil {
		m.fatalf("%s cannot follow %s: %v", id, name, err)
	}
	m.followers[id] = f
	return id + " follows " + name
}

// hideFollower deletes a follower for a time, or brings it back.
func (m *meta) hideFollower() string {
	names := slices.Sorted(maps.Keys(m.followers)) // The order of a map is not the seed's.
	if len(names) == 0 {
		return ""
	}
	id := names[m.rng.IntN(len(names))]
	f := m.followers[id]
	if f.deleted {
		if _, err := m.host.UndeleteModel(context.Background(), id); err != nil {
			m.fatalf("bring back %s: %v", id, err)
		}
	} else {
		m.calm() // So that it has learned something.
		if m.followers[id] == nil {
			return id + " has stopped"
		}
		m.softDelete(id)
		f.mayStop = true // The log is not kept for it.
	}
	f.deleted = !f.deleted
	return fmt.Sprintf("%s, deleted: %v", id, f.deleted)
}

// release lets the followers of a model stop.
func (m *meta) release(p *plainModel) {
	for _, f := range m.followers {
		f.mayStop = f.mayStop || f.leader == p
	}
}

// calm waits until the followers have learned all, and removes those that have stopped.
func (m *meta) calm() {
	for _, id := range slices.Sorted(maps.Keys(m.followers)) {
		f, follows := m.followers[id], ""
		if f.deleted {
			continue
		}
		waitFor(m.t, m.host, func() bool {
			info, err := m.host.GetModel(context.Background(), id)
			if err != nil {
				m.fatalf("%s: %v", id, err)
			}
			follows = info.Follows
			// The log of a follower may have what it has not learned yet.
			return follows == "" || m.host.Behind(id) == 0 && int(info.Sequence)+f.from == f.leader.sequence()
		})
		if follows != "" {
			continue
		}
		if !f.mayStop {
			m.fatalf("%s follows no more", id)
		}
		m.purge(id)
		delete(m.followers, id)
	}
}

// compareFollowers compares what follows another model with a learner that is told the
// history of that model.
func (m *meta) compareFollowers() (there int) {
	m.calm()
	for id, f := range m.followers {
		if f.deleted {
			continue
		}
		there++
		learner := newLearner(m.t, f.spec)
		for _, r := range f.leader.history[min(f.from, len(f.leader.history)):] {
			var out model.Outcome
			if err := learner.Observe(&out, r.observation.Features, r.observation.Labels, r.observation.Weight); err != nil {
				m.fatalf("%v", err)
			}
		}
		want, err := codec.Append(nil, learner.Visit)
		if err != nil {
			m.fatalf("%v", err)
		}
		if s := m.host.stats(m.t, id); s.Digest != digestOf(want) || int(s.Sequence)+f.from != f.leader.sequence() {
			m.fatalf("%s is at %d behind %d, and its leader at %d; digests equal: %v", id, s.Sequence, f.from, f.leader.sequence(), s.Digest == digestOf(want))
		}
	}
	return there
}

// plainAlias is the alias "live": the name and the model that it has, and those before.
type plainAlias struct {
	name, previousName string
	model, previous    *plainModel
}

// aliased reports whether the alias names a model, which can then not be deleted.
func (m *meta) aliased(name string) bool {
	if m.alias == nil || m.alias.name != name {
		return false
	}
	if err := m.host.DeleteModel(context.Background(), name); !errors.Is(err, engine.ErrAliased) {
		m.fatalf("delete %s, which the alias names: %v", name, err)
	}
	return true
}

// setLive sets the alias to a model of one output.
func (m *meta) setLive() string {
	name, p := m.any()
	if p == nil || p.spec.Outputs > 1 {
		return ""
	}
	if m.alias == nil || m.alias.model != p {
		next := &plainAlias{name: name, model: p}
		if m.alias != nil {
			next.previousName, next.previous = m.alias.name, m.alias.model
		}
		m.alias = next
	}
	a, err := m.host.SetAlias(context.Background(), "live", name, "")
	if err != nil || a.Model != name || a.Previous != m.alias.previousName {
		m.fatalf("set to %s: %+v, %v; want %+v", name, a, err, m.alias)
	}
	return name
}

// replacePrevious removes the model that the alias named before, and creates another one
// under its id.
func (m *meta) replacePrevious() string {
	if m.alias == nil || m.models[m.alias.previousName] == nil || m.alias.previousName == m.alias.name {
		return ""
	}
	name := m.alias.previousName
	m.release(m.models[name])
	m.purge(name)
	delete(m.models, name)
	spec := m.newModel(name)
	return name + " " + spec.Name()
}

// observeLive observes by the alias: an id that is new, or one that any model knows. The
// model of before answers what it has learned, if it is still the same.
func (m *meta) observeLive() string {
	if m.alias == nil {
		return ""
	}
	to, name := m.alias.model, m.alias.name
	id := m.newID("l")
	o := m.observation(to, id)
	if from := m.models[m.alias.previousName]; from != nil && m.rng.IntN(4) > 0 {
		if m.rng.IntN(2) == 0 {
			from = to
		}
		if known, row := m.known(from); row != nil && len(row.observation.Labels) == 1 {
			id, o = known, row.observation
			o.ObservationID, o.PredictionID = id, ""
		}
	}
	if p := m.alias.previous; p != nil && m.models[m.alias.previousName] == p {
		if _, waits := p.waiting[id]; waits {
			return "it waits"
		}
		if p.knows(id) != nil {
			to, name = p, m.alias.previousName
		}
	}
	if _, waits := to.waiting[id]; waits {
		return "it waits"
	}
	var want engine.Answer
	if row := to.knows(id); row != nil {
		if r := row.observation; r.Labels[0] != o.Labels[0] || r.Weight != o.Weight {
			if _, _, err := m.host.send(context.Background(), o); !errors.Is(err, engine.ErrConflict) {
				m.fatalf("another label for %s of %s: %v", id, name, err)
			}
			return id + " conflicts"
		}
		want = row.answer
		want.Duplicate = true
	} else {
		want = m.learnedAs(to, id, o, nil)
	}
	by, got, err := m.host.send(context.Background(), o)
	if err != nil || by != name {
		m.fatalf("%s by the alias was learned by %q, want %s: %v", id, by, name, err)
	}
	m.same(got, want, id+" by the alias")
	return fmt.Sprintf("%s by %s, duplicate %v", id, name, got.Duplicate)
}

// knows is what a model has learned under an id, nil if nothing.
func (p *plainModel) knows(id string) *plainRow {
	if at, ok := p.ids[id]; ok {
		return &p.learned[at]
	}
	if r, ok := p.before[id]; ok {
		return &r
	}
	return nil
}

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
		loss += o.Weight * model.LossOf(p.learner, predictions[j], y)
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
	weights := model.AppendWeights(p.learner, nil)
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
