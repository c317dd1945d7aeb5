package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
)

// DeleteOptions say how a model is deleted.
type DeleteOptions struct {
	// ETag must be the model's, unless it is empty.
	ETag string
	// Purge removes the model at once, also a soft-deleted one.
	Purge bool
	// ValidateOnly checks the call, and deletes nothing.
	ValidateOnly bool
}

// DeleteModel deletes a model at its turn: after the observations already accepted. It describes a
// soft-deleted model; of a purged model the answer is nil.
func (e *Engine) DeleteModel(ctx context.Context, id string, o DeleteOptions) (*Info, error) {
	if !o.ValidateOnly {
		if err := e.asOwner(ctx); err != nil {
			return nil, err
		}
	}
	m, release, err := e.lookUpClaimed(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Deleted() && !o.Purge {
		err = deletedError(m)
	} else {
		err = checkETag(m, o.ETag)
	}
	if names := e.aliases.Of(m.Ref()); err == nil && len(names) > 0 {
		err = fmt.Errorf("model %q: %w: %s; set them to another model or delete them first", m.ID(), ErrAliased, hosted.Brief(strings.Join(names, ", ")))
	}
	if err != nil {
		release()
		return nil, err
	}
	purge := o.Purge || e.o.DeletedKept <= 0
	switch {
	case o.ValidateOnly && purge:
		release()
		return nil, nil
	case o.ValidateOnly:
		release()
		info, err := figures.Describe(m.Model)
		return &info, err
	case purge:
		return nil, e.purge(ctx, m, release)
	}
	info, err := e.succeed(ctx, m, release, func(next *record.RegistryValue, now time.Time) error {
		next.Deleted, next.Purge = next.Updated, now.Add(e.o.DeletedKept).UnixNano()
		return nil
	})
	if err != nil {
		return nil, err
	}
	e.o.Log.Info("model deleted", zap.String("model", m.ID()), zap.Time("until", info.Purge))
	return &info, nil
}

// UndeleteModel brings a soft-deleted model back, with all that it had learned. A model that is not deleted
// stays as it is. A follower whose leader was restored meanwhile to before what the follower has learned becomes
// a model of its own.
func (e *Engine) UndeleteModel(ctx context.Context, id string) (Info, error) {
	if err := e.asOwner(ctx); err != nil {
		return Info{}, err
	}
	m, release, err := e.lookUpClaimed(ctx, id)
	if err != nil {
		return Info{}, err
	}
	if !m.Deleted() {
		release()
		return figures.Describe(m.Model)
	}
	info, err := e.succeed(ctx, m, release, func(next *record.RegistryValue, _ time.Time) (err error) {
		next.Deleted, next.Purge = 0, 0
		next.Follow, err = e.continuation(m)
		return err
	})
	if err == nil {
		e.o.Log.Info("model brought back", zap.String("model", id))
	}
	return info, err
}

// purge removes a model and everything that the store has of it. The caller holds the claim on the name.
func (e *Engine) purge(ctx context.Context, m *hostedModel, release func()) error {
	return m.turnClaimed(ctx, release, func(ctx context.Context) error {
		if err := m.Delete(ctx); err != nil {
			return err
		}
		err := e.remove(m)
		e.o.Log.Info("model removed", zap.String("model", m.ID()))
		return err
	})
}

// succeed registers an edited entry of a model, soft-deleted or brought back by it, and replaces the model by
// its successor, which it describes. The caller holds the claim on the name.
func (e *Engine) succeed(ctx context.Context, m *hostedModel, release func(), edit func(next *record.RegistryValue, now time.Time) error) (Info, error) {
	result := make(chan *hostedModel, 1)
	err := m.turnClaimed(ctx, release, func(ctx context.Context) error {
		now := e.o.Now()
		registered := changed(m.Registered(), now)
		if err := edit(registered, now); err != nil {
			return err
		}
		if err := m.Release(ctx); err != nil {
			return err
		}
		if err := m.Register(ctx, registered); err != nil {
			return err
		}
		next := m.successor(registered)
		result <- next
		return e.supersede(m, next)
	})
	if err != nil {
		return Info{}, err
	}
	return figures.Describe((<-result).Model)
}
