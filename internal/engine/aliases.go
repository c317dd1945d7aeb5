package engine

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/replica"
	"hindsight/internal/model"
)

// allAliases is a claim that no model and no alias can have. Its holder changes aliases.
const allAliases = "*"

// ShareAlias makes an alias name a model, durably and from one moment to the next. The model gets all requests of the
// alias but the share of a second model, which may be nil. Unless expected is empty, the alias must name that model now,
// or must not exist if expected is NoModel. Setting an alias to what it is already is a no-op.
func (e *Engine) ShareAlias(ctx context.Context, name, id, expected string, share *Share) (Alias, error) {
	if err := checkAlias(name, id, share); err != nil {
		return Alias{}, err
	}
	if err := e.asOwner(ctx); err != nil {
		return Alias{}, err
	}
	claimed := []string{allAliases, name, id}
	if share != nil {
		claimed = append(claimed, share.Model)
	}
	release, err := e.table.claimAll(ctx, claimed...)
	if err != nil {
		return Alias{}, err
	}
	m, current, next, err := e.planAlias(ctx, name, id, expected, share)
	if err == nil && next != current {
		err = e.continueFollower(ctx, m)
	}
	switch {
	case err != nil || next == current:
		release()
	case m.Registered().Follow != nil && m.Registered().Follow.Leader == next.Previous:
		err = e.promote(ctx, m, current, next, release)
	default:
		err = e.aliases.Put(ctx, current, next, e.models(current))
		release()
	}
	if err != nil {
		return Alias{}, err
	}
	if next != current {
		e.o.Log.Info("alias set", zap.String("alias", name), zap.String("model", id), zap.String("previous_model", next.Previous.ID),
			zap.String("share_model", next.Share.Model.ID), zap.Float64("share_fraction", next.Share.Fraction))
	}
	return next.Public(), nil
}

// planAlias returns the target model of an alias, the current binding (nil if none) and the binding to store.
// If the current one already is what is wanted, the two are the same. The caller holds the claims.
func (e *Engine) planAlias(ctx context.Context, name, id, expected string, share *Share) (m *hostedModel, current, next *alias.Binding, err error) {
	if m, err = e.findID(id); err != nil {
		return nil, nil, nil, err
	}
	if e.table.get(name) != nil {
		return nil, nil, nil, fmt.Errorf("%w: a model has the id %q, so that no alias can have it", ErrModelExists, name)
	}
	wanted := record.Alias{Model: m.Ref(), Updated: e.o.Now().UnixNano()}
	var second *hostedModel
	if share != nil {
		if second, err = e.second(ctx, m, share); err != nil {
			return nil, nil, nil, err
		}
		wanted.Share = record.Share{Model: second.Ref(), Fraction: share.Fraction, LearnAll: share.LearnAll, Started: wanted.Updated}
	}
	current, next, err = e.aliases.Plan(name, wanted, expected)
	if err != nil || next == current || second == nil || share.LearnAll {
		return m, current, next, err
	}
	if next.Share.First, err = replica.Base(ctx, m.Model); err == nil {
		next.Share.Second, err = replica.Base(ctx, second.Model)
	}
	return m, current, next, err
}

// second returns the second model of a share of the requests to m, or rejects it. The caller holds the claims.
func (e *Engine) second(ctx context.Context, m *hostedModel, share *Share) (*hostedModel, error) {
	second, err := e.findID(share.Model)
	if err != nil {
		return nil, err
	}
	if err := e.continueFollower(ctx, second); err != nil {
		return nil, err
	}
	reject := func(field, got, want string) error { return hosted.Invalid(field, got, want) }
	f := second.Registered().Follow
	switch {
	case m.Registered().Follow != nil:
		return nil, reject("model", fmt.Sprintf("%q, which follows %q", m.ID(), m.Registered().Follow.Leader.ID), "a model that follows none, for a share")
	case share.LearnAll && (f == nil || f.Leader != m.Ref()):
		return nil, reject("share.learn_all", "true", fmt.Sprintf("a second model that was created with follows: %q", m.ID()))
	case !share.LearnAll && f != nil:
		return nil, reject("share.learn_all", "false", fmt.Sprintf("true: %q learns what %q does", second.ID(), f.Leader.ID))
	case replica.CheckLeader(second.Spec(), m.Model) != nil:
		return nil, reject("share.model", fmt.Sprintf("%q", second.ID()), fmt.Sprintf("a model with the inputs, labels and classes of %q", m.ID()))
	}
	return second, nil
}

func checkAlias(name, id string, share *Share) error {
	var missing error
	if id == "" {
		missing = &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model"}
	}
	if share != nil {
		return model.JoinFields(checkName("alias", name), missing, share.Check(id))
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
