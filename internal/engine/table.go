package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// Engine hosts models. Its methods may be called by any number of goroutines
// at once.
type Engine struct {
	shared
	mu struct {
		sync.RWMutex
		// models are all by their names, deleted ones that can be brought back too;
		// table has the same in the order of their names, deleted counts these.
		models  map[string]*instance
		table   []*instance
		deleted int
		byKept  map[storage.Model]*instance
		// claims are the names that calls have for themselves, each closed when it is
		// given up. making counts the models that are being made.
		claims map[string]chan struct{}
		// aliases are all by their names, none of which is that of a model.
		aliases map[string]*alias
		making  int
		closed  bool
	}
	end context.CancelFunc
	// created is when the newest model was created, in nanoseconds since 1970.
	created atomic.Int64
	// aliasing holds a token while an alias is changed.
	aliasing chan struct{}
	// unread says that a registry entry could not be read: a model that is not there may
	// be its.
	unread bool
	// upkeep counts the goroutines of the engine as a whole, writing that of
	// the snapshotter, which ends last.
	upkeep, writing sync.WaitGroup
}

// findID gives the model of an id. It takes no alias, as do the calls that could undo
// what is meant for another model.
func (e *Engine) findID(id string) (*instance, error) {
	i, err := e.lookUp(id)
	if err == nil && i.isDeleted() {
		return nil, deletedError(i)
	}
	return i, err
}

// lookUp is findID for a model that may be deleted.
func (e *Engine) lookUp(id string) (*instance, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	if i, ok := e.mu.models[id]; ok {
		return i, nil
	}
	if id == "" {
		return nil, &model.FieldError{Field: "model", Err: ErrInvalidID, Got: "nothing", Want: "the id of a model"}
	}
	if a, ok := e.mu.aliases[id]; ok {
		return nil, fmt.Errorf("%w: %q is an alias, and this call takes none: name the model itself, %q", notFound(id), id, a.Model.ID)
	}
	return nil, notFound(id)
}

// leaderOf is the model that is followed, also one that is deleted and can be brought
// back. It is ErrModelNotFound once that was removed.
func (e *Engine) leaderOf(f *record.Follow) (*instance, error) {
	i, err := e.lookUp(f.Leader.ID)
	if err == nil && i.ref() != f.Leader {
		return nil, notFound(f.Leader.ID)
	}
	return i, err
}

// followsStill is the continuation of what a model follows, nil if it follows none. While
// the leader is restored, or after it was removed, that is what the model followed before:
// lead decides later.
func (e *Engine) followsStill(i *instance) (*record.Follow, error) {
	f := i.follows()
	if f == nil {
		return nil, nil
	}
	leader, err := e.leaderOf(f)
	if errors.Is(err, ErrModelNotFound) || err == nil && leader.paused.Load() {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	return i.continuation(f, leader)
}

// referred gives the model that a reference names, nil if it no longer exists. It may be
// deleted. The lock is held.
func (e *Engine) referred(r record.Ref) *instance {
	if i := e.mu.models[r.ID]; i != nil && i.ref() == r {
		return i
	}
	return nil
}

// deletedError refuses a model that is deleted and says how it comes back.
func deletedError(i *instance) error {
	return fmt.Errorf("%w; it was deleted, and UndeleteModel brings it back until %s", notFound(i.id), purgeTime(i))
}

// purgeTime is when a deleted model is removed, as a text.
func purgeTime(i *instance) string {
	return entryTime(i.entry.Load().Purge).UTC().Format(time.RFC3339)
}

// instances are the models that are not deleted, in the order of their names.
func (e *Engine) instances() []*instance {
	e.mu.RLock()
	defer e.mu.RUnlock()
	models := make([]*instance, 0, len(e.mu.table)-e.mu.deleted)
	for _, i := range e.mu.table {
		if !i.isDeleted() {
			models = append(models, i)
		}
	}
	return models
}

// all are the models of the table, deleted ones among them.
func (e *Engine) all() []*instance {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Clone(e.mu.table)
}

// claim waits until no other call has the name for itself. Models are made, changed,
// deleted, brought back and removed by who has their name.
func (e *Engine) claim(ctx context.Context, id string) (release func(), err error) {
	for {
		e.mu.Lock()
		other := e.mu.claims[id]
		if e.mu.closed || other == nil {
			break
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("engine: wait for the name %q: %w", id, context.Cause(ctx))
		}
	}
	defer e.mu.Unlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	claim := make(chan struct{})
	e.mu.claims[id] = claim
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.mu.claims, id)
		close(claim)
	}, nil
}

// claimAll claims names in their order, so that two calls cannot wait for each other.
func (e *Engine) claimAll(ctx context.Context, ids ...string) (release func(), err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var held []func()
	release = func() {
		for _, give := range held {
			give()
		}
	}
	for _, id := range slices.Compact(ids) {
		give, err := e.claim(ctx, id)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	return release, nil
}

// aliasesOf are the aliases that name a model, in the order of their names.
func (e *Engine) aliasesOf(r record.Ref) (names []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for name, a := range e.mu.aliases {
		if a.Model == r {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// own is lookUp, with the name of the model claimed.
func (e *Engine) own(ctx context.Context, id string) (i *instance, release func(), err error) {
	if i, err = e.lookUp(id); err != nil {
		return nil, nil, err
	}
	if release, err = e.claim(ctx, i.id); err != nil {
		return nil, nil, err
	}
	// It may have become another one meanwhile.
	if i, err = e.lookUp(i.id); err != nil {
		release()
		return nil, nil, err
	}
	return i, release, nil
}

// room counts a model that is being made, and refuses it if there is no room for it.
// The name is claimed. Deleted models take room until they are removed, so that they can
// be brought back.
func (e *Engine) room() (made func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.mu.models); n+e.mu.making >= e.o.ModelLimit {
		return nil, fmt.Errorf("%w: there are %d, %d of them deleted", ErrModelLimit, n, e.mu.deleted)
	}
	e.mu.making++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.mu.making--
	}, nil
}

// place finds a name in the table. The lock is held.
func (e *Engine) place(id string) (at int, there bool) {
	return slices.BinarySearchFunc(e.mu.table, id, func(i *instance, id string) int { return strings.Compare(i.id, id) })
}

// host takes a model in, in place of one of the same name.
func (e *Engine) host(i *instance) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	at, there := e.place(i.id)
	if there {
		e.count(e.mu.table[at], -1)
		e.mu.table[at] = i
	} else {
		e.mu.table = slices.Insert(e.mu.table, at, i)
	}
	e.count(i, 1)
	e.mu.models[i.id], e.mu.byKept[i.Kept] = i, i
	i.enlist(i, !i.isDeleted() && i.follows() != nil)
	if !i.isDeleted() {
		i.timings = e.o.Timings(i.id, i.name())
	}
	return nil
}

// drop forgets a model that was removed. Its name is claimed.
func (e *Engine) drop(i *instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, there := e.place(i.id); there {
		e.count(i, -1)
		e.mu.table = slices.Delete(e.mu.table, at, at+1)
	}
	i.enlist(i, false)
	delete(e.mu.models, i.id)
	delete(e.mu.byKept, i.Kept)
}

// count counts a model that comes or goes. The lock is held.
func (e *Engine) count(i *instance, n int) {
	if i.isDeleted() {
		e.mu.deleted += n
	}
}
