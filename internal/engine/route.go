package engine

import (
	"cmp"
	"context"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// Resolve finds the model that a request names, which is done once a request: an alias
// may name another one at the next moment. It takes a read lock and allocates nothing.
func (e *Engine) Resolve(name string) (Target, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.resolve(name)
}

// resolve is Resolve. The lock is held.
func (e *Engine) resolve(name string) (t Target, err error) {
	if e.mu.closed {
		return t, ErrClosed
	}
	i, ok := e.mu.models[name]
	var a *alias
	if !ok {
		if a = e.mu.aliases[name]; a != nil {
			i = e.referred(a.Model)
			ok = i != nil
		}
	}
	switch {
	case name == "":
		err = &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model, or an alias"}
	case !ok && a != nil:
		err = fmt.Errorf("alias %q: %w", name, notFound(a.Model.ID))
	case !ok:
		err = notFound(name)
	case i.isDeleted():
		err = deletedError(i)
	default:
		t = Target{i, a}
	}
	return t, err
}

// AliasTarget is the id of the model that an alias names, empty if no alias has the name.
// It takes a read lock and allocates nothing.
func (e *Engine) AliasTarget(name string) string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.mu.aliases[name]; a != nil {
		return a.Model.ID
	}
	return ""
}

type scopeKey struct{}

// WithScope is a context whose calls run on the models alone that allowed takes. Where a call
// takes an alias, allowed is asked about the very model that the call then runs on: the alias
// may name another one at the next moment.
func WithScope(ctx context.Context, allowed func(id string) error) context.Context {
	return context.WithValue(ctx, scopeKey{}, allowed)
}

// find gives the model that a request names, by its id or by an alias, if the scope of the
// context has it.
func (e *Engine) find(ctx context.Context, name string) (*instance, error) {
	t, err := e.Resolve(name)
	if err != nil {
		return nil, err
	}
	if allowed, ok := ctx.Value(scopeKey{}).(func(string) error); ok {
		if err := allowed(t.id); err != nil {
			return nil, err
		}
	}
	return t.instance, nil
}

// Route tells where the observations of one request go. It has to be ended with Done
// once they are queued.
type Route struct {
	present Target
	// former is the model that the alias named before, nil if there is none.
	former *instance
}

// Route begins to route observations that are sent by a name. By an alias that has just
// been set it waits until what was sent by it before is learned, and after a start until
// what was learned then is known: the same observation sent again is then found where it
// was learned.
func (e *Engine) Route(ctx context.Context, name string) (Route, error) {
	r, err := e.route(name)
	if err != nil || r.present.alias == nil {
		return r, err
	}
	select {
	case <-r.present.alias.settled:
		if r.former != nil {
			err = r.former.deriveIDs(ctx)
		}
		if err == nil {
			return r, nil
		}
	case <-ctx.Done():
		err = fmt.Errorf("engine: wait for the alias %q to be set: %w", name, context.Cause(ctx))
	case <-e.lifetime.Done():
		err = ErrClosed
	}
	r.Done()
	return Route{}, err
}

func (e *Engine) route(name string) (r Route, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if r.present, err = e.resolve(name); err != nil {
		return r, err
	}
	if a := r.present.alias; a != nil {
		a.routing.Add(1)
		if i := e.referred(a.Previous); i != nil && !i.isDeleted() {
			r.former = i
		}
	}
	return r, nil
}

// Done ends the route.
func (r *Route) Done() {
	if r.present.alias != nil {
		r.present.alias.routing.Done()
	}
}

// Present is the model that the name stands for.
func (r *Route) Present() Target { return r.present }

// For is the model that learns an observation with these ids. What the model that the
// alias named before has learned, or has predicted, stays with it: an observation is
// learned once, and a label by the model that made the prediction.
func (r *Route) For(predictionID, observationID string) (Target, error) {
	id := cmp.Or(predictionID, observationID)
	if r.former == nil || id == "" || len(id) > storage.MaxID {
		return r.present, nil
	}
	seen, err := r.former.lookUp(id)
	if err != nil {
		return Target{}, err
	}
	if seen == nil {
		if w, err := r.former.waitingFor(id, r.former.o.Now()); err != nil || w == nil {
			return r.present, err
		}
	}
	return Target{r.former, r.present.alias}, nil
}

// serveAlias lets requests find an alias that is durable in place of the one of now.
func (e *Engine) serveAlias(now, next *alias) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.aliases[next.name] = next
	before := e.referred(next.Previous)
	if now == nil || before == nil {
		close(next.settled)
		return nil
	}
	e.upkeep.Go(func() {
		// All that was sent by the alias until now is queued, and then is learned: also
		// what was sent before the last change, if that is not settled yet.
		<-now.settled
		now.routing.Wait()
		if err := before.box.Do(e.lifetime, func(context.Context) error { return nil }); err != nil {
			e.o.Log.Debug("the model that an alias named before has ended", zap.String("alias", next.name), zap.Error(err))
		}
		close(next.settled)
	})
	return nil
}
