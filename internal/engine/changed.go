package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// Changed takes what a command of a replicated store changed, once the store has it, if no call of this engine
// waits for the command. One goroutine calls Changed, in the order of the commands. Changed does not wait: a model
// learns at its turn, and the engine takes over the registry and the aliases in a goroutine of its own.
func (e *Engine) Changed(c storage.Change) {
	m := e.table.stored(c.Model)
	switch c.Kind {
	case storage.Appended:
		if m != nil { // Else the model learns once it is hosted.
			m.Grown(c.Sequence)
		}
	case storage.Digested:
		if m != nil {
			m.CompareDigest(c.Sequence, c.Digest)
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

// OwnerChanged tells that Options.Owner may answer otherwise. Without it the engine asks at every sweep.
func (e *Engine) OwnerChanged() { e.replicas.Wake() }

// Await waits until a model, named by its id or an alias, has learned a sequence.
func (e *Engine) Await(ctx context.Context, name string, sequence uint64) error {
	if err := e.changes.settle(ctx, e.env.Lifetime); err != nil {
		return err
	}
	m, err := e.find(ctx, name)
	if err != nil {
		return err
	}
	return m.Await(ctx, sequence)
}

// asOwner begins a call that changes the store. It refuses the call on a server that does not own the store, and
// waits until the engine has taken over what earlier owners changed.
func (e *Engine) asOwner(ctx context.Context) error {
	if e.o.Owner == nil {
		return nil
	}
	if err := e.o.CheckOwner(); err != nil {
		return err
	}
	return e.changes.settle(ctx, e.env.Lifetime)
}

// change says of which model, or of the aliases if model is nil, the store may have something new. What that is
// is read from the store, so that a change taken over twice or late does no harm.
type change struct {
	name  string
	model storage.Model
	// settled is closed at the place of a call that waits, which has no model.
	settled chan struct{}
}

// changes are the changes that the engine has not taken over, in the order of the commands.
type changes struct {
	mu struct {
		sync.Mutex
		queue []change
	}
	// pending counts the changes that are queued or being taken over.
	pending atomic.Int64
	// wake has a token after a change was queued.
	wake chan struct{}
}

func (c *changes) add(added change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.Add(1)
	c.mu.queue = append(c.mu.queue, added)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next takes the queued changes.
func (c *changes) next() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.mu.queue
	c.mu.queue = nil
	return queue
}

// settle waits until everything added before is taken over. It costs one atomic load if that is so.
func (c *changes) settle(ctx, lifetime context.Context) error {
	if c.pending.Load() == 0 {
		return nil
	}
	settled := make(chan struct{})
	c.add(change{settled: settled})
	select {
	case <-settled:
		return nil
	case <-lifetime.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for what other servers changed: %w", context.Cause(ctx))
	}
}

// takeOver takes over changes until the lifetime ends.
func (e *Engine) takeOver() {
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-e.changes.wake:
		}
		for _, c := range e.changes.next() {
			if c.settled != nil {
				close(c.settled)
			} else if err := e.take(e.env.Lifetime, &c); err != nil && e.env.Lifetime.Err() == nil {
				e.o.Log.Error("a change of another server is not taken over", zap.String("model", c.name), zap.Error(err))
			}
			e.changes.pending.Add(-1)
		}
		e.replicas.Wake() // They have rested meanwhile.
	}
}

// take takes over what the store has of a model, or of the aliases.
func (e *Engine) take(ctx context.Context, c *change) error {
	if c.model == nil {
		release, err := e.table.claim(ctx, allAliases)
		if err != nil {
			return err
		}
		defer release()
		return e.aliases.Sync(ctx, e.table.created, e.previous)
	}
	release, err := e.table.claim(ctx, c.name)
	if err != nil {
		return err
	}
	defer release()
	m := e.table.stored(c.model)
	value, err := c.model.Value()
	switch {
	case errors.Is(err, storage.ErrNotFound) && m == nil:
		return nil
	case errors.Is(err, storage.ErrNotFound):
		return m.Turn(ctx, func(ctx context.Context) error {
			if err := m.Supersede(ctx); err != nil {
				return err
			}
			return e.remove(m)
		})
	case err != nil:
		return recovery.StorageError(err)
	}
	from, registered, err := recovery.DecodeEntry(storage.Entry{Name: c.name, Value: value, Model: c.model}, e.env.Learners)
	if err != nil {
		e.registryDamaged.Store(true)
		return err
	}
	if m == nil {
		m = e.newEntry(c.name, from, &registered)
		if err := e.host(m); err != nil {
			return err
		}
		m.Warm()
		return nil
	}
	return e.takeEntry(ctx, m, &registered)
}

// takeEntry serves a model with a changed entry.
func (e *Engine) takeEntry(ctx context.Context, m *entry, registered *record.Entry) error {
	if m.Deleted() != (registered.Deleted != 0) {
		return m.Turn(ctx, func(ctx context.Context) error {
			if err := m.Release(ctx); err != nil {
				return err
			}
			return e.supersede(m, m.successor(registered))
		})
	}
	followed := m.Entry().Follow != nil
	m.SetMetadata(registered)
	if follows := registered.Follow != nil; followed != follows {
		e.replicas.Enlist(&m.replica, follows && !m.Deleted())
	}
	return nil
}

// remove takes a model out of the engine that the store no longer has. It runs at the model's turn, and the caller
// holds the claim on the name.
func (e *Engine) remove(m *entry) error {
	err := e.replace(m, nil, hosted.NotFound(m.ID()))
	e.replicas.Wake() // Those of the model stop.
	return err
}

// supersede replaces a model by its successor, which is soft-deleted or brought back. It runs at the model's turn,
// and the caller holds the claim on the name.
func (e *Engine) supersede(m, next *entry) error {
	deleted := m
	if next.Deleted() {
		deleted = next
	}
	return e.replace(m, next, deletedError(deleted))
}
