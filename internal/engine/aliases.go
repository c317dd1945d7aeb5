package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/model"
)

// NoModel is what an alias names that is not there, as SetAlias expects it.
const NoModel = "-"

// SetAlias makes an alias name a model, durably and from one moment to the next. Unless
// expected is empty the alias must name that model now, or must not be there if it is
// NoModel. An alias that names the model already stays as it is.
func (e *Engine) SetAlias(ctx context.Context, name, id, expected string) (Alias, error) {
	if err := checkAlias(name, id); err != nil {
		return Alias{}, err
	}
	release, err := e.ownAlias(ctx, name, id)
	if err != nil {
		return Alias{}, err
	}
	i, now, next, err := e.plan(name, id, expected)
	if err == nil && next != now {
		err = e.settle(ctx, i)
	}
	switch {
	case err != nil || next == now:
		release()
	case i.follows() != nil && i.follows().Leader == next.Previous:
		err = e.promote(ctx, i, now, next, release)
	default:
		err = e.setAlias(ctx, now, next)
		release()
	}
	if err != nil {
		return Alias{}, err
	}
	if next != now {
		e.o.Log.Info("alias set", zap.String("alias", name), zap.String("model", id), zap.String("previous_model", next.Previous.ID))
	}
	return next.public(), nil
}

// plan is the model that an alias is to name, the alias of now, nil if there is none, and
// the one to put in its place, which is that of now if it names the model already. The
// names are claimed.
func (e *Engine) plan(name, id, expected string) (i *instance, now, next *alias, err error) {
	if i, err = e.findID(id); err != nil {
		return nil, nil, nil, err
	}
	if there, err := e.lookUp(name); err == nil {
		return nil, nil, nil, fmt.Errorf("%w: a model has the id %q, so that no alias can have it", ErrModelExists, there.id)
	}
	if now, err = e.expected(name, expected); err != nil {
		return nil, nil, nil, err
	}
	if now != nil && now.Model == i.ref() {
		return i, now, now, nil
	}
	next = newAlias(name, record.Alias{Model: i.ref(), Updated: e.o.Now().UnixNano()})
	if now != nil {
		next.Previous = now.Model
	}
	return i, now, next, nil
}

// checkAlias refuses names that cannot be an alias and a model.
func checkAlias(name, id string) error {
	var errs []error
	if err := CheckID(name); err != nil {
		got := fmt.Sprintf("%q", brief(name))
		errs = append(errs, &model.FieldError{Field: "alias", Err: ErrInvalidID, Got: got, Want: idForm})
	}
	if id == "" {
		errs = append(errs, &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model"})
	}
	return model.JoinFields(errs...)
}

// newAlias is an alias that is not settled.
func newAlias(name string, a record.Alias) *alias {
	return &alias{Alias: a, name: name, settled: make(chan struct{})}
}

// ownAlias keeps other calls from changing aliases, and from making, changing and
// deleting models of these names.
func (e *Engine) ownAlias(ctx context.Context, names ...string) (release func(), err error) {
	if err := take(ctx, e.aliasing, "another alias to be set"); err != nil {
		return nil, err
	}
	claims, err := e.claimAll(ctx, names...)
	if err != nil {
		<-e.aliasing
		return nil, err
	}
	return func() { claims(); <-e.aliasing }, nil
}

// expected is the alias of now, nil if there is none. It is refused if it is not what
// the caller expects.
func (e *Engine) expected(name, model string) (*alias, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	now, n := e.mu.aliases[name], len(e.mu.aliases)
	switch {
	case now == nil && n >= aliasLimit:
		return nil, fmt.Errorf("%w: there are %d", ErrAliasLimit, n)
	case now == nil && model != "" && model != NoModel:
		return nil, fmt.Errorf("alias %q: %w: it is not there, expected %q", name, ErrAliasChanged, brief(model))
	case now != nil && model != "" && model != now.Model.ID:
		return nil, fmt.Errorf("alias %q: %w: it names %q, expected %q", name, ErrAliasChanged, now.Model.ID, brief(model))
	}
	return now, nil
}

// setAlias puts an alias in place of the one of now, nil if there is none.
func (e *Engine) setAlias(ctx context.Context, now, next *alias) error {
	if err := e.o.Store.PutAlias(ctx, next.name, next.Encode()); err != nil {
		return fmt.Errorf("engine: set the alias %q: %w", next.name, recovery.StorageError(err))
	}
	return e.serveAlias(now, next)
}

// ListAliases are the aliases in the order of their names.
func (e *Engine) ListAliases() ([]Alias, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	all := make([]Alias, 0, len(e.mu.aliases))
	for _, name := range slices.Sorted(maps.Keys(e.mu.aliases)) {
		all = append(all, e.mu.aliases[name].public())
	}
	return all, nil
}

// DeleteAlias removes an alias, durably. Its model stays.
func (e *Engine) DeleteAlias(ctx context.Context, name string) error {
	release, err := e.ownAlias(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	e.mu.RLock()
	_, there := e.mu.aliases[name]
	e.mu.RUnlock()
	if !there {
		return fmt.Errorf("alias %q: %w", brief(name), ErrAliasNotFound)
	}
	if err := e.o.Store.RemoveAlias(ctx, name); err != nil {
		return fmt.Errorf("engine: delete the alias %q: %w", name, recovery.StorageError(err))
	}
	e.mu.Lock()
	delete(e.mu.aliases, name)
	e.mu.Unlock()
	e.o.Log.Info("alias deleted", zap.String("alias", name))
	return nil
}

// loadAliases reads the aliases when the engine opens. One that cannot be read, or that
// has the id of a model, is left out, and told.
func (e *Engine) loadAliases(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.o.Store.EachAlias(ctx, func(name string, value []byte) error {
		a, err := record.DecodeAlias(value)
		if err == nil && e.mu.models[name] != nil {
			err = fmt.Errorf("%w: a model has the id", ErrCorrupt)
		}
		if err != nil {
			e.o.Log.Error("an alias is not served", zap.String("alias", name), zap.Error(err))
			return nil
		}
		a.Bind(func(id string) int64 {
			if i := e.mu.models[id]; i != nil {
				return i.ref().Created
			}
			return 0
		})
		loaded := newAlias(strings.Clone(name), a)
		close(loaded.settled)
		e.mu.aliases[loaded.name] = loaded
		return nil
	})
	if err != nil {
		return fmt.Errorf("engine: read the aliases: %w", err)
	}
	return nil
}
