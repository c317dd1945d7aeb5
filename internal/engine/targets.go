package engine

import (
	"cmp"
	"context"
	"fmt"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Target is the model that a request names, by its id or by an alias. A request resolves its target once.
type Target struct {
	model   *hostedModel
	binding *alias.Binding
	second  *hostedModel
	// leader learns what is predicted for it, nil as a rule: then the model does.
	leader *hostedModel
}

// Shares reports whether Of may choose another model.
func (t Target) Shares() bool { return t.second != nil }

// Of is the model that predicts for a key: see alias.Binding.ToSecond.
func (t Target) Of(key string) Target {
	switch {
	case t.second == nil:
		return t
	case !t.binding.ToSecond(key):
		return Target{model: t.model, binding: t.binding}
	case t.binding.Share.LearnAll:
		return Target{model: t.second, binding: t.binding, leader: t.model}
	}
	return Target{model: t.second, binding: t.binding}
}

// ID is the id of the model.
func (t Target) ID() string { return t.model.ID() }

// Named is the id of the model if an alias named it, else empty.
func (t Target) Named() string {
	if t.binding == nil {
		return ""
	}
	return t.model.ID()
}

// Schema is what the model's records are read by, nil without named inputs.
func (t Target) Schema() *input.Schema { return t.model.Schema() }

// Predict calls hosted.Model.Predict.
func (t Target) Predict(ctx context.Context, rows []Row, o PredictOptions) ([]Prediction, error) {
	o.Shared = t.leader != nil
	if o.Remember && (o.Shared || t.model.Registered().Follow == nil) {
		if err := t.model.engine.asOwner(ctx); err != nil {
			return nil, err
		}
	}
	return t.model.Predict(ctx, rows, o)
}

// Submit calls hosted.Model.Submit.
func (t Target) Submit(ctx context.Context, observations []Observation) (*Ticket, error) {
	if err := t.model.engine.asOwner(ctx); err != nil {
		return nil, err
	}
	return t.model.Submit(ctx, observations)
}

// Resolve finds the model that a request names: the alias may name another model a moment later. It takes two
// read locks and allocates nothing.
func (e *Engine) Resolve(name string) (Target, error) {
	e.table.mu.RLock()
	defer e.table.mu.RUnlock()
	return e.resolve(name, (*alias.Table).Find)
}

// resolve is Resolve with the way to find the binding of an alias. The table's lock is held, so that an alias
// and its model are of one moment.
func (e *Engine) resolve(name string, find func(*alias.Table, string) *alias.Binding) (t Target, err error) {
	if e.table.mu.closed {
		return t, ErrClosed
	}
	t.model = e.table.mu.models[name]
	if t.model == nil {
		if t.binding = find(e.aliases, name); t.binding != nil {
			t.model = e.table.referredLocked(t.binding.Model)
		}
	}
	switch {
	case name == "":
		err = &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model, or an alias"}
	case t.model == nil && t.binding != nil:
		err = fmt.Errorf("alias %q: %w", name, hosted.NotFound(t.binding.Model.ID))
	case t.model == nil:
		err = hosted.NotFound(name)
	case t.model.Deleted():
		err = deletedError(t.model)
	case t.binding.Shares():
		t.second = e.secondLocked(t)
	}
	return t, err
}

// secondLocked returns the second model of a target. It is nil if the first model gets all requests: the second model
// no longer exists, or followed the first and follows no more.
func (e *Engine) secondLocked(t Target) *hostedModel {
	share := &t.binding.Share
	m := e.table.referredLocked(share.Model)
	if m == nil || m.Deleted() {
		return nil
	}
	if f := m.Registered().Follow; share.LearnAll && (f == nil || f.Leader != t.model.Ref()) {
		return nil
	}
	return m
}

// AliasTarget is the id of the model that an alias names, empty if no alias has the name. It takes a read
// lock and allocates nothing.
func (e *Engine) AliasTarget(name string) string {
	if b := e.aliases.Find(name); b != nil {
		return b.Model.ID
	}
	return ""
}

type scopeKey struct{}

// WithScope is a context whose calls run only on the models that allowed takes. Where a call takes an alias,
// allowed is asked about the very model that the call then runs on: the alias may name another model a moment
// later.
func WithScope(ctx context.Context, allowed func(id string) error) context.Context {
	return context.WithValue(ctx, scopeKey{}, allowed)
}

// find returns the model that a request names, by its id or by an alias, if the scope of the context has it.
func (e *Engine) find(ctx context.Context, name string) (*hostedModel, error) {
	t, err := e.Resolve(name)
	if err != nil {
		return nil, err
	}
	if allowed, ok := ctx.Value(scopeKey{}).(func(string) error); ok {
		if err := allowed(t.ID()); err != nil {
			return nil, err
		}
	}
	return t.model, nil
}

// Route chooses the model that learns each observation of one request. The caller calls Done once the observations
// are queued.
type Route struct {
	engine  *Engine
	present Target
	// others are the second model and the previous model of the alias, nil where the alias has none.
	others [2]*hostedModel
}

// Routed is where an observation goes.
type Routed struct {
	Target
	// Maker is for Observation.Maker.
	Maker *hosted.Model
}

// Route begins to route observations that are sent by a name. By an alias that has just been set, Route waits
// until its models know what was sent by the alias before: the model that learned an observation recognizes it when it
// is sent again.
func (e *Engine) Route(ctx context.Context, name string) (Route, error) {
	if err := e.asOwner(ctx); err != nil {
		return Route{}, err
	}
	r, err := e.route(name)
	if err != nil || r.present.binding == nil {
		return r, err
	}
	var models []*hosted.Model
	for _, m := range r.others {
		if m != nil {
			models = append(models, m.Model)
		}
	}
	if len(models) > 0 {
		models = append(models, r.present.model.Model)
	}
	if err := e.aliases.AwaitPrevious(ctx, r.present.binding, models...); err != nil {
		r.Done()
		return Route{}, err
	}
	return r, nil
}

func (e *Engine) route(name string) (r Route, err error) {
	e.table.mu.RLock()
	defer e.table.mu.RUnlock()
	r.engine = e
	if r.present, err = e.resolve(name, (*alias.Table).Begin); err != nil {
		r.Done()
		return Route{}, err
	}
	if b := r.present.binding; b != nil {
		for n, ref := range [...]record.Ref{b.Share.Model, b.Previous} {
			if m := e.table.referredLocked(ref); m != nil && !m.Deleted() && m != r.present.model {
				r.others[n] = m
			}
		}
	}
	return r, nil
}

// Done ends the route.
func (r *Route) Done() {
	if r.present.binding != nil {
		r.present.binding.End()
	}
}

// For returns the model that learns an observation with these ids and this key:
//
//  1. the model that has learned the observation,
//  2. else the model that made the pending prediction, or its leader,
//  3. else the model that the key chooses.
//
// So each observation is learned once.
func (r *Route) For(predictionID, observationID, key string) (Routed, error) {
	id := cmp.Or(predictionID, observationID)
	present := Target{model: r.present.model, binding: r.present.binding}
	chosen := present
	if r.present.Shares() && !r.present.binding.Share.LearnAll {
		chosen = r.present.Of(cmp.Or(key, id))
	}
	if r.others == [2]*hostedModel{} || id == "" || len(id) > storage.MaxID {
		return Routed{Target: chosen}, nil
	}
	if m, err := r.among(id, (*hostedModel).HasLearned); m != nil || err != nil {
		return Routed{Target: Target{model: m, binding: present.binding}}, err
	}
	maker, err := r.among(id, (*hostedModel).HasPending)
	if err != nil || (maker == nil && chosen == present) {
		return Routed{Target: present}, err
	}
	// The present model may have learned what another one still has as pending, or may know what the key
	// would give to the second model since a change of the share.
	known, err := present.model.HasLearned(id)
	if err == nil && !known && maker == nil {
		known, err = present.model.HasPending(id)
	}
	switch {
	case err != nil || known:
		return Routed{Target: present}, err
	case maker != nil:
		return r.to(maker)
	}
	return Routed{Target: chosen}, nil
}

// among returns the first of the other models that knows an id, nil if none does.
func (r *Route) among(id string, knows func(*hostedModel, string) (bool, error)) (*hostedModel, error) {
	for _, m := range r.others {
		if m == nil {
			continue
		}
		if known, err := knows(m, id); known || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// to routes the label of a pending prediction to the model that made it, or to the leader of that model.
func (r *Route) to(maker *hostedModel) (Routed, error) {
	f := maker.Registered().Follow
	if f == nil {
		return Routed{Target: Target{model: maker, binding: r.present.binding}}, nil
	}
	leader, err := r.engine.leader(f)
	if err == nil && leader.Deleted() {
		err = deletedError(leader)
	}
	return Routed{Target: Target{model: leader, binding: r.present.binding}, Maker: maker.Model}, err
}

// leader returns the model that is followed, also a soft-deleted one. It is ErrModelNotFound once that was
// purged.
func (e *Engine) leader(f *record.Follow) (*hostedModel, error) {
	m, err := e.lookUp(f.Leader.ID)
	if err == nil && m.Ref() != f.Leader {
		return nil, hosted.NotFound(f.Leader.ID)
	}
	return m, err
}

func (e *Engine) models(b *alias.Binding) (models []*hosted.Model) {
	if b == nil {
		return nil
	}
	for _, ref := range [...]record.Ref{b.Model, b.Share.Model} {
		if m := e.table.referred(ref); m != nil {
			models = append(models, m.Model)
		}
	}
	return models
}
