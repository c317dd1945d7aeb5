package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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
		making int
		closed bool
	}
	end context.CancelFunc
	// upkeep counts the goroutines of the engine as a whole, writing that of
	// the snapshotter, which ends last.
	upkeep, writing sync.WaitGroup
}

// find gives the model that a request names. All calls find their model here.
func (e *Engine) find(id string) (*instance, error) {
	i, err := e.lookUp(id)
	if err == nil && i.isDeleted() {
		return nil, deletedError(i)
	}
	return i, err
}

// lookUp is find for a model that may be deleted.
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
	return nil, notFound(id)
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

// own is find, with the name of the model claimed.
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
	delete(e.mu.models, i.id)
	delete(e.mu.byKept, i.Kept)
}

// count counts a model that comes or goes. The lock is held.
func (e *Engine) count(i *instance, n int) {
	if i.isDeleted() {
		e.mu.deleted += n
	}
}
