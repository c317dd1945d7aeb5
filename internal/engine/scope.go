package engine

import "context"

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
