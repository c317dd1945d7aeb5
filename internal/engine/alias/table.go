// Package alias has the aliases: names that stand for models. An observation sent by an alias goes to the model that
// knows its id.
package alias

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// Limit bounds the aliases of a Table. A list returns all of them.
const Limit = 1000

// NoModel is the expected model of an alias that must not exist.
const NoModel = "-"

// Errors of aliases.
var (
	ErrNotFound = errors.New("no such alias")
	ErrExists   = errors.New("an alias has the id")
	ErrChanged  = errors.New("the alias names another model")
	ErrLimit    = errors.New("as many aliases as the server may hold")
)

// Alias is a name that stands for a model.
type Alias struct {
	Name, Model string
	// Previous is the model that the alias named before, empty if the alias is new.
	Previous string
	// Updated is when the alias was set to Model.
	Updated time.Time
}

// Binding is what an alias stands for from one change to the next.
type Binding struct {
	record.Alias
	name string
	// routing counts the requests that took this binding and have not queued their
	// observations. Begin raises it while the table has the binding, and nobody afterwards.
	routing sync.WaitGroup
	// drained is closed after every observation sent by the previous binding is learned or
	// rejected: the model of the previous binding then knows their ids.
	drained chan struct{}
}

func newBinding(name string, a record.Alias) *Binding {
	return &Binding{Alias: a, name: name, drained: make(chan struct{})}
}

// Public is the alias as a caller sees it.
func (b *Binding) Public() Alias {
	return Alias{Name: b.name, Model: b.Model.ID, Previous: b.Previous.ID, Updated: time.Unix(0, b.Updated)}
}

// Stored is the alias as a store keeps it.
func (b *Binding) Stored() storage.Alias { return storage.Alias{Name: b.name, Value: b.Encode()} }

// Table holds the aliases of an engine.
type Table struct {
	store storage.Aliases
	log   *zap.Logger
	// lifetime ends before Close.
	lifetime context.Context //nolint:containedctx // The lifetime of the table's goroutines.
	draining sync.WaitGroup
	mu       struct {
		sync.RWMutex
		bindings map[string]*Binding
		closed   bool
	}
}

// NewTable returns an empty table.
func NewTable(lifetime context.Context, store storage.Aliases, log *zap.Logger) *Table {
	t := &Table{store: store, log: log, lifetime: lifetime}
	t.mu.bindings = map[string]*Binding{}
	return t
}

// Close waits for the goroutines of the table. No alias can be set afterwards.
func (t *Table) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.mu.Unlock()
	t.draining.Wait()
}

// Find returns the binding of a name, nil if no alias has it. It allocates nothing.
func (t *Table) Find(name string) *Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.bindings[name]
}

// Begin is Find for a request that queues observations. The caller calls End on a binding that it got.
func (t *Table) Begin(name string) *Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	b := t.mu.bindings[name]
	if b != nil {
		b.routing.Add(1)
	}
	return b
}

// AwaitPrevious waits until the models that may know an id know every id that was sent by the alias
// before the binding.
func (t *Table) AwaitPrevious(ctx context.Context, b *Binding, models ...*hosted.Model) error {
	select {
	case <-b.drained:
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for the alias %q to be set: %w", b.name, context.Cause(ctx))
	case <-t.lifetime.Done():
		return hosted.ErrClosed
	}
	for _, m := range models {
		if err := m.DeriveIDs(ctx); err != nil {
			return err
		}
	}
	return nil
}

// End ends a request that Begin began.
func (b *Binding) End() { b.routing.Done() }

// Of returns the names of the aliases that name a model, in order.
func (t *Table) Of(model record.Ref) (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, b := range t.mu.bindings {
		if b.Model == model {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// List returns the aliases in the order of their names.
func (t *Table) List() []Alias {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]Alias, 0, len(t.mu.bindings))
	for _, name := range slices.Sorted(maps.Keys(t.mu.bindings)) {
		all = append(all, t.mu.bindings[name].Public())
	}
	return all
}

// Plan returns the current binding of a name, nil if there is none, and the binding to store. If the current binding
// already has the wanted model, the two are the same. If expected is a model, the alias must name that model now; if
// expected is NoModel, the alias must not exist. The caller lets no other call change aliases until Put.
func (t *Table) Plan(name string, wanted record.Alias, expected string) (current, next *Binding, err error) {
	t.mu.RLock()
	current, n := t.mu.bindings[name], len(t.mu.bindings)
	t.mu.RUnlock()
	next = newBinding(name, wanted)
	switch {
	case current == nil && n >= Limit:
		return nil, nil, fmt.Errorf("%w: there are %d", ErrLimit, n)
	case current == nil && expected != "" && expected != NoModel:
		return nil, nil, fmt.Errorf("alias %q: %w: it does not exist, expected %q", name, ErrChanged, hosted.Brief(expected))
	case current == nil:
		return nil, next, nil
	case expected != "" && expected != current.Model.ID:
		return nil, nil, fmt.Errorf("alias %q: %w: it names %q, expected %q", name, ErrChanged, current.Model.ID, hosted.Brief(expected))
	case current.Model == wanted.Model:
		return current, current, nil
	}
	next.Previous = current.Model
	return current, next, nil
}

// Put stores a planned binding and serves it. Former is as in Serve.
func (t *Table) Put(ctx context.Context, current, next *Binding, former *hosted.Model) error {
	if err := t.store.PutAlias(ctx, next.name, next.Encode()); err != nil {
		return fmt.Errorf("engine: set the alias %q: %w", next.name, recovery.StorageError(err))
	}
	return t.Serve(current, next, former)
}

// Serve lets requests find a stored binding in place of the current one. Former is the model of the
// current one, nil if it no longer exists.
func (t *Table) Serve(current, next *Binding, former *hosted.Model) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return hosted.ErrClosed
	}
	t.mu.bindings[next.name] = next
	if current == nil || former == nil {
		close(next.drained)
		return nil
	}
	t.draining.Go(func() {
		// Observations sent by the binding before current may still be on their way too.
		<-current.drained
		current.routing.Wait()
		if err := former.AwaitQueued(t.lifetime); err != nil {
			t.log.Debug("the former model of an alias has ended", zap.String("alias", next.name), zap.Error(err))
		}
		close(next.drained)
	})
	return nil
}

// Sync reads the aliases of the store, at the start and after another server has changed them. The function created
// gives the time of creation of the model that has an id, or 0. The function named returns the model of a binding, nil
// if it no longer exists. Sync leaves out, and logs, an alias that cannot be decoded or that has the id of a model.
func (t *Table) Sync(ctx context.Context, created func(id string) int64, named func(*Binding) *hosted.Model) error {
	stored := map[string]bool{}
	err := t.store.EachAlias(ctx, func(name string, value []byte) error {
		a, err := record.DecodeAlias(value)
		if err == nil && created(name) != 0 {
			err = fmt.Errorf("%w: a model has the id", hosted.ErrCorrupt)
		}
		if err != nil {
			t.log.Error("an alias is not served", zap.String("alias", name), zap.Error(err))
			return nil
		}
		next := newBinding(strings.Clone(name), a)
		stored[next.name] = true
		if current := t.Find(name); current == nil || current.Alias != a {
			return t.Serve(current, next, named(current))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("engine: read the aliases: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.mu.bindings, func(name string, _ *Binding) bool { return !stored[name] })
	return nil
}

// Delete removes an alias, durably.
func (t *Table) Delete(ctx context.Context, name string) error {
	if t.Find(name) == nil {
		return fmt.Errorf("alias %q: %w", hosted.Brief(name), ErrNotFound)
	}
	if err := t.store.RemoveAlias(ctx, name); err != nil {
		return fmt.Errorf("engine: delete the alias %q: %w", name, recovery.StorageError(err))
	}
	t.mu.Lock()
	delete(t.mu.bindings, name)
	t.mu.Unlock()
	return nil
}
