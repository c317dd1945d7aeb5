package engine

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// Changed receives the change of a command of a replicated store that no call of this engine waits for, and every digest,
// after the store has the change. One goroutine calls Changed, in the order of the commands. Changed does not wait: a model
// learns at its turn, and another goroutine of the engine takes over the registry and the aliases.
func (e *Engine) Changed(c storage.Change) {
	m := e.table.byHandle(c.Model)
	switch c.Kind {
	case storage.Appended:
		if m != nil { // A model that is not hosted yet learns once it is.
			m.Grown(c.Sequence)
			if e.RestsCold() {
				m.watchers.End(ErrNotOwner) // Only the owner learns, and reports to watchers.
			}
		}
	case storage.Digested:
		if m != nil {
			m.Digested(c.Index, c.Sequence, c.Digest)
		}
	case storage.Snapshotted:
		if m != nil {
			m.Snapshotted(c.Index, c.Sequence, c.Value)
		}
	case storage.Rewound:
		if m != nil {
			m.Rewound(c.Sequence)
		}
		e.changes.add(change{name: c.Name, model: c.Model})
	case storage.Created, storage.Removed, storage.ValueSet:
		e.changes.add(change{name: c.Name, model: c.Model})
		if len(c.Also) > 0 {
			e.changes.add(change{})
		}
	case storage.AliasSet, storage.AliasRemoved:
		e.changes.add(change{})
	}
}

// Digest returns the digest of this server's copy of a model after an entry of the log, and reports a difference to the
// digest of another server.
func (e *Engine) Digest(id string, index uint64, other storage.Digest) storage.Digest {
	m := e.table.get(id)
	if m == nil {
		return storage.Digest{}
	}
	return m.Digest(index, other)
}

// OwnerChanged tells the engine that the result of Options.Owner may have changed. Without OwnerChanged the engine
// notices at the next sweep.
func (e *Engine) OwnerChanged() { e.followers.Wake() }

// RestsCold reports whether this server does not learn now, because a cold server learns only as the owner.
// The owner then answers all calls about models: this server would load a model for each.
func (e *Engine) RestsCold() bool { return e.o.RestsCold() }

// Await waits until the model that a request names has learned a sequence.
func (e *Engine) Await(ctx context.Context, name string, sequence uint64) error {
	t, err := e.resolveAfterChanges(ctx, name)
	if err != nil {
		return err
	}
	return t.model.Await(ctx, sequence)
}

// AwaitLog waits until the model that a request names has learned every observation that its log has at the call.
func (e *Engine) AwaitLog(ctx context.Context, name string) error {
	t, err := e.resolveAfterChanges(ctx, name)
	if err != nil {
		return err
	}
	return t.model.AwaitLog(ctx)
}

// AwaitChanges waits until the engine has taken over every change that Changed has received.
func (e *Engine) AwaitChanges(ctx context.Context) error { return e.changes.await(ctx, e.env.Lifetime) }

// resolveAfterChanges resolves a name after the changes of other servers so far.
func (e *Engine) resolveAfterChanges(ctx context.Context, name string) (Target, error) {
	if err := e.AwaitChanges(ctx); err != nil {
		return Target{}, err
	}
	return e.Resolve(name)
}

func (e *Engine) takeOver() {
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-e.changes.wake:
		}
		for _, c := range e.changes.next() {
			if c.reached != nil {
				close(c.reached)
			} else if err := e.take(e.env.Lifetime, &c); err != nil && e.env.Lifetime.Err() == nil {
				e.o.Log.Error("the engine cannot take over a change of another server", zap.String("model", c.name), zap.Error(err))
			}
			e.changes.pending.Add(-1)
		}
		e.followers.Wake() // Followers rest while changes are pending.
	}
}

func (e *Engine) take(ctx context.Context, c *change) error {
	if c.model == nil {
		release, err := e.table.claim(ctx, allAliases)
		if err != nil {
			return err
		}
		defer release()
		return e.aliases.Sync(ctx, e.table.created, e.named)
	}
	release, err := e.table.claim(ctx, c.name)
	if err != nil {
		return err
	}
	defer release()
	m := e.table.byHandle(c.model)
	value, err := c.model.Value()
	switch {
	case errors.Is(err, storage.ErrDeleted) && m == nil:
		return nil
	case errors.Is(err, storage.ErrDeleted):
		return m.Turn(ctx, func(ctx context.Context) error {
			if err := m.Supersede(ctx); err != nil {
				return err
			}
			return e.remove(m)
		})
	case err != nil:
		return recovery.StorageError(err)
	}
	from, registered, err := recovery.DecodeRegistryEntry(storage.RegistryEntry{Name: c.name, Value: value, Model: c.model}, e.env.Learners)
	if err != nil {
		e.registryDamaged.Store(true)
		return err
	}
	if m == nil {
		m = e.newHosted(c.name, from, &registered)
		if err := e.host(m); err != nil {
			return err
		}
		m.Warm()
		return nil
	}
	return e.takeRegistered(ctx, m, &registered)
}

func (e *Engine) takeRegistered(ctx context.Context, m *hostedModel, registered *record.RegistryValue) error {
	if m.Deleted() != (registered.Deleted != 0) {
		return m.Turn(ctx, func(ctx context.Context) error {
			if err := m.Release(ctx); err != nil {
				return err
			}
			return e.supersede(m, m.successor(registered))
		})
	}
	followed := m.Registered().Follow != nil
	m.SetRegistered(registered)
	if follows := registered.Follow != nil; followed != follows {
		e.followers.Enlist(&m.follower, follows && !m.Deleted())
	}
	return nil
}
