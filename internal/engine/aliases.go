package engine

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
)

// allAliases is a claim that no model and no alias can have. Its holder changes aliases.
const allAliases = "*"

// SetAlias makes an alias name a model. It returns once the change survives a crash; later requests find the new model.
// If expected is a model, the alias must name that model now; if expected is NoModel, the alias must not exist. Setting
// an alias to the model that it names already is a no-op.
func (e *Engine) SetAlias(ctx context.Context, name, id, expected string) (Alias, error) {
	if err := checkAlias(name, id); err != nil {
		return Alias{}, err
	}
	if err := e.asOwner(ctx); err != nil {
		return Alias{}, err
	}
	release, err := e.table.claimAll(ctx, allAliases, name, id)
	if err != nil {
		return Alias{}, err
	}
	m, current, next, err := e.planAlias(name, id, expected)
	if err == nil && next != current {
		err = e.continueFollower(ctx, m)
	}
	switch {
	case err != nil || next == current:
		release()
	case m.Registered().Follow != nil && m.Registered().Follow.Leader == next.Previous:
		err = e.promote(ctx, m, current, next, release)
	default:
		err = e.aliases.Put(ctx, current, next, e.named(current))
		release()
	}
	if err != nil {
		return Alias{}, err
	}
	if next != current {
		e.o.Log.Info("alias set", zap.String("alias", name), zap.String("model", id), zap.String("previous_model", next.Previous.ID))
	}
	return next.Public(), nil
}

// planAlias returns the target model of an alias, the current binding (nil if none) and the binding to store.
// If the current one already is what is wanted, the two are the same. The caller holds the claims.
func (e *Engine) planAlias(name, id, expected string) (m *hostedModel, current, next *alias.Binding, err error) {
	if m, err = e.findID(id); err != nil {
		return nil, nil, nil, err
	}
	if e.table.get(name) != nil {
		return nil, nil, nil, fmt.Errorf("%w: a model has the id %q, so that no alias can have it", ErrModelExists, name)
	}
	current, next, err = e.aliases.Plan(name, record.Alias{Model: m.Ref(), Updated: e.o.Now().UnixNano()}, expected)
	return m, current, next, err
}

func checkAlias(name, id string) error {
	var missing error
	if id == "" {
		missing = &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model"}
	}
	return model.JoinFields(checkName("alias", name), missing)
}

// ListAliases lists the aliases in the order of their names.
func (e *Engine) ListAliases() ([]Alias, error) {
	if e.table.closed() {
		return nil, ErrClosed
	}
	return e.aliases.List(), nil
}

// DeleteAlias removes an alias, durably. Its model stays.
func (e *Engine) DeleteAlias(ctx context.Context, name string) error {
	if err := e.asOwner(ctx); err != nil {
		return err
	}
	release, err := e.table.claimAll(ctx, allAliases, name)
	if err != nil {
		return err
	}
	defer release()
	if err := e.aliases.Delete(ctx, name); err != nil {
		return err
	}
	e.o.Log.Info("alias deleted", zap.String("alias", name))
	return nil
}
