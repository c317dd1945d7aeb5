package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/model"
)

// claim waits until no other call has the name for itself. Models are created, changed, deleted, undeleted
// and purged by the holder of the claim on their name.
func (t *table) claim(ctx context.Context, name string) (release func(), err error) {
	for {
		t.mu.Lock()
		other := t.mu.claims[name]
		if t.mu.closed || other == nil {
			break
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("engine: wait for the name %q: %w", name, context.Cause(ctx))
		}
	}
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, ErrClosed
	}
	claim := make(chan struct{})
	t.mu.claims[name] = claim
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.mu.claims, name)
		close(claim)
	}, nil
}

// claimAll claims names in their order, so that two calls cannot wait for each other.
func (t *table) claimAll(ctx context.Context, names ...string) (release func(), err error) {
	slices.Sort(names)
	var held []func()
	release = func() {
		for _, give := range held {
			give()
		}
	}
	for _, name := range slices.Compact(names) {
		give, err := t.claim(ctx, name)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	return release, nil
}

// reserveSlot reserves one of the ModelLimit slots for a model under construction, or returns ErrModelLimit.
// The caller holds the claim on the name. Soft-deleted models occupy their slot until they are purged.
func (t *table) reserveSlot() (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.mu.models); n+t.mu.making >= t.limit {
		return nil, fmt.Errorf("%w: there are %d, %d of them deleted", ErrModelLimit, n, t.mu.deleted)
	}
	t.mu.making++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.making--
	}, nil
}

// findID returns the model of an id that is not soft-deleted. It takes no alias: the alias may name another model a
// moment later.
func (e *Engine) findID(id string) (*hostedModel, error) {
	m, err := e.lookUp(id)
	if err == nil && m.Deleted() {
		return nil, deletedError(m)
	}
	return m, err
}

// lookUp is findID for a model that may be soft-deleted.
func (e *Engine) lookUp(id string) (*hostedModel, error) {
	e.table.mu.RLock()
	m, closed := e.table.mu.models[id], e.table.mu.closed
	e.table.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case m != nil:
		return m, nil
	case id == "":
		return nil, &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model"}
	}
	if b := e.aliases.Find(id); b != nil {
		return nil, fmt.Errorf("%w: %q is an alias, and this call takes none: name the model itself, %q", hosted.NotFound(id), id, b.Model.ID)
	}
	return nil, hosted.NotFound(id)
}

// asOwner begins a call that changes the store. It rejects the call on a server that does not own the store, and
// waits until the engine has taken over the changes of earlier owners.
func (e *Engine) asOwner(ctx context.Context) error {
	if e.o.Owner == nil {
		return nil
	}
	if err := e.o.CheckOwner(); err != nil {
		return err
	}
	return e.AwaitChanges(ctx)
}

func (e *Engine) lookUpClaimed(ctx context.Context, id string) (m *hostedModel, release func(), err error) {
	if _, err := e.lookUp(id); err != nil {
		return nil, nil, err
	}
	if release, err = e.table.claim(ctx, id); err != nil {
		return nil, nil, err
	}
	// Another model may have the id now.
	if m, err = e.lookUp(id); err != nil {
		release()
		return nil, nil, err
	}
	return m, release, nil
}

func deletedError(m *hostedModel) error {
	return fmt.Errorf("%w; it was deleted, and UndeleteModel brings it back until %s", hosted.NotFound(m.ID()), purgeTime(m))
}

func purgeTime(m *hostedModel) string {
	return hosted.TimeOf(m.Registered().Purge).UTC().Format(time.RFC3339)
}

// turnClaimed runs work at the model's turn. It releases the claim on the name when the work has ended, also
// after the caller has left.
func (m *hostedModel) turnClaimed(ctx context.Context, release func(), work func(context.Context) error) error {
	var begun atomic.Bool
	err := m.Turn(ctx, func(ctx context.Context) error {
		if !begun.CompareAndSwap(false, true) {
			return nil // The caller has left.
		}
		defer release()
		return work(ctx)
	})
	if begun.CompareAndSwap(false, true) {
		release()
	}
	return err
}

// newHosted is a model that is not in memory and not in the table.
func (e *Engine) newHosted(id string, from recovery.Source, registered *record.RegistryValue) *hostedModel {
	m := &hostedModel{engine: e}
	return m.init(hosted.New(e.env, id, from, registered, m))
}

// successor is the same model with another registry entry, as after a start. Calls that hold m do
// not reach the successor.
func (m *hostedModel) successor(next *record.RegistryValue) *hostedModel {
	out := &hostedModel{engine: m.engine}
	return out.init(m.Successor(next, out))
}

func (m *hostedModel) init(model *hosted.Model) *hostedModel {
	m.Model = model
	m.reader.Init(model, m.engine.reporter)
	m.follower.Init(model)
	return m
}

// host puts a model into the table, in place of a model of the same id. The caller holds the claim on the
// name.
func (e *Engine) host(m *hostedModel) error {
	t := &e.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return ErrClosed
	}
	if at, found := slices.BinarySearchFunc(t.mu.order, m.ID(), compareID); found {
		t.count(t.mu.order[at], -1)
		m.InheritRewind(t.mu.order[at].Model)
		t.mu.order[at] = m
	} else {
		t.mu.order = slices.Insert(t.mu.order, at, m)
	}
	t.count(m, 1)
	t.mu.models[m.ID()], t.mu.byNumber[m.Handle().Number()] = m, m
	if !m.Deleted() {
		m.timings = e.o.Timings(m.ID(), m.Learner())
	}
	e.followers.Enlist(&m.follower, !m.Deleted() && m.Registered().Follow != nil)
	return nil
}

// replace puts next in the place of m, or takes m out of the table if next is nil, and releases what the entry
// of m owns: its jobs and its memory, its watchers, its timings and its place among the followers. A call that
// holds m fails with why. It runs at m's turn, and the caller holds the claim on the name.
func (e *Engine) replace(m, next *hostedModel, why error) error {
	m.Retire(why)
	m.watchers.End(why)
	if m.timings != nil {
		e.o.ForgetTimings(m.ID(), m.Learner())
	}
	if next != nil {
		return e.host(next)
	}
	e.table.drop(m)
	e.followers.Enlist(&m.follower, false)
	return nil
}

// remove removes a model from the engine after the store has removed it. It runs at the model's turn, and the caller
// holds the claim on the name.
func (e *Engine) remove(m *hostedModel) error {
	err := e.replace(m, nil, hosted.NotFound(m.ID()))
	e.followers.Wake() // The followers of the model stop.
	return err
}

// supersede replaces a model by its successor, which is soft-deleted or brought back. It runs at the model's turn,
// and the caller holds the claim on the name.
func (e *Engine) supersede(m, next *hostedModel) error {
	deleted := m
	if next.Deleted() {
		deleted = next
	}
	return e.replace(m, next, deletedError(deleted))
}
