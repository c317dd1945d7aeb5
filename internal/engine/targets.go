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
	if o.Remember && t.model.Registered().Follow == nil {
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
	}
	return t, err
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
	present Target
	// previous is the previous model of the alias, nil if the alias has none.
	previous *hostedModel
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
	if r.previous != nil {
		models = []*hosted.Model{r.previous.Model, r.present.model.Model}
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
	if r.present, err = e.resolve(name, (*alias.Table).Begin); err != nil {
		r.Done()
		return Route{}, err
	}
	if b := r.present.binding; b != nil {
		if m := e.table.referredLocked(b.Previous); m != nil && !m.Deleted() && m != r.present.model {
			r.previous = m
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

// For returns the model that learns an observation with these ids: the previous model if it has learned the observation,
// or if it has made the pending prediction and the present model has not learned the observation; else the present model.
// So each observation is learned once.
func (r *Route) For(predictionID, observationID string) (Target, error) {
	id := cmp.Or(predictionID, observationID)
	if r.previous == nil || id == "" || len(id) > storage.MaxID {
		return r.present, nil
	}
	previous := Target{model: r.previous, binding: r.present.binding}
	if known, err := r.previous.HasLearned(id); known || err != nil {
		return previous, err
	}
	if made, err := r.previous.HasPending(id); !made || err != nil {
		return r.present, err
	}
	if known, err := r.present.model.HasLearned(id); known || err != nil {
		return r.present, err
	}
	return previous, nil
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

// named returns the model of a binding, none if the model no longer exists.
func (e *Engine) named(b *alias.Binding) *hosted.Model {
	if b == nil {
		return nil
	}
	if m := e.table.referred(b.Model); m != nil {
		return m.Model
	}
	return nil
}
