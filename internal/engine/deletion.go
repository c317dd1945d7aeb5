package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
)

// DeleteOptions say how a model is deleted.
type DeleteOptions struct {
	// ETag has to be the model's, unless it is empty.
	ETag string
	// Purge removes the model at once, also one that is deleted already.
	Purge bool
	// ValidateOnly checks the call, and deletes nothing.
	ValidateOnly bool
}

// DeleteModel deletes a model at its turn: after the observations already accepted. It
// tells of a model that can be brought back; of one that is removed there is nothing to
// tell, and the answer is nil.
func (e *Engine) DeleteModel(ctx context.Context, id string, o DeleteOptions) (*Info, error) {
	i, release, err := e.own(ctx, id)
	if err != nil {
		return nil, err
	}
	if i.isDeleted() && !o.Purge {
		err = deletedError(i)
	} else {
		err = checkEtag(i.id, o.ETag, i.entry.Load())
	}
	if names := e.aliasesOf(i.ref()); err == nil && len(names) > 0 {
		err = fmt.Errorf("model %q: %w: %s; set them to another model or delete them first", i.id, ErrAliased, brief(strings.Join(names, ", ")))
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
		info, err := i.info()
		return &info, err
	case purge:
		return nil, e.remove(ctx, i, release)
	}
	return e.softDelete(ctx, i, release)
}

// atTurn runs work at the model's turn and releases its name when the work has ended,
// also if the caller has left before.
func (i *instance) atTurn(ctx context.Context, release func(), work func(context.Context) error) error {
	var begun atomic.Bool
	err := i.box.Do(ctx, func(ctx context.Context) error {
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

// remove removes a model and all that is kept of it. Its name is claimed.
func (e *Engine) remove(ctx context.Context, i *instance, release func()) error {
	return i.atTurn(ctx, release, func(ctx context.Context) error {
		if err := i.supersede(ctx); err != nil {
			return err
		}
		if err := i.Kept.Delete(ctx); err != nil {
			return i.errorf("delete what is kept", recovery.StorageError(err))
		}
		i.leave(notFound(i.id))
		e.drop(i)
		i.wakeFollowers() // Those of the model stop.
		e.o.ForgetTimings(i.id, i.name())
		e.o.Log.Info("model removed", zap.String("model", i.id))
		return nil
	})
}

// leave ends the use of an instance, which answers with an error from then on. It runs
// at the model's turn.
func (i *instance) leave(why error) {
	i.box.Drop(why)
	i.mu.Lock()
	i.mu.broken = why
	i.mu.Unlock()
	i.forget()
	i.watchers.each(func(q *queue) { q.end(why) })
}

// softDelete lets a model go and keeps what is on disk. In its place is an instance that
// was never used, as after a start, so that no call that found the model before is of use
// to it. The name is claimed.
func (e *Engine) softDelete(ctx context.Context, i *instance, release func()) (*Info, error) {
	gone := make(chan *instance, 1)
	err := i.atTurn(ctx, release, func(ctx context.Context) error {
		now := e.o.Now()
		next := changed(i.entry.Load(), now)
		next.Deleted, next.Purge = next.Updated, now.Add(e.o.DeletedKept).UnixNano()
		kept, err := e.replace(ctx, i, next)
		if err != nil {
			return err
		}
		e.o.ForgetTimings(i.id, i.name())
		e.o.Log.Info("model deleted", zap.String("model", i.id), zap.Time("until", entryTime(next.Purge)))
		gone <- kept
		return nil
	})
	if err != nil {
		return nil, err
	}
	info, err := (<-gone).info()
	return &info, err
}

// replace registers another entry of a model, which is deleted or brought back by it, and
// puts a new instance in the place of i. Whatever i holds, its memory among it, is released.
// It runs at i's turn, and the name is claimed.
func (e *Engine) replace(ctx context.Context, i *instance, next *record.Entry) (*instance, error) {
	if err := i.supersede(ctx); err != nil {
		return nil, err
	}
	if i.mu.machine != nil && i.mu.broken == nil {
		if err := i.writeDerived(); err != nil {
			return nil, err
		}
	}
	if err := i.register(ctx, next); err != nil {
		return nil, err
	}
	out := i.successor(next)
	deleted := i
	if out.isDeleted() {
		deleted = out
	}
	i.leave(deletedError(deleted))
	return out, e.host(out)
}

// successor is the same model with another entry, not in memory. Why it no longer learns
// goes with it: a restore may have been interrupted.
func (i *instance) successor(next *record.Entry) *instance {
	i.mu.RLock()
	defer i.mu.RUnlock()
	out := newInstance(i.shared, i.id, i.Source, next)
	out.mu.broken = i.mu.broken
	out.rewinding = i.rewinding
	out.paused.Store(i.rewinding)
	return out
}

// UndeleteModel brings a deleted model back, with all that it had learned. A model that
// is not deleted is answered as it is. A follower whose leader was restored meanwhile to
// before what the follower has learned follows no more.
func (e *Engine) UndeleteModel(ctx context.Context, id string) (Info, error) {
	i, release, err := e.own(ctx, id)
	if err != nil {
		return Info{}, err
	}
	if !i.isDeleted() {
		release()
		return i.info()
	}
	came := make(chan *instance, 1)
	err = i.atTurn(ctx, release, func(ctx context.Context) error {
		next := changed(i.entry.Load(), e.o.Now())
		next.Deleted, next.Purge = 0, 0
		var err error
		if next.Follow, err = e.followsStill(i); err != nil {
			return err
		}
		back, err := e.replace(ctx, i, next)
		if err != nil {
			return err
		}
		e.o.Log.Info("model brought back", zap.String("model", id))
		came <- back
		return nil
	})
	if err != nil {
		return Info{}, err
	}
	return (<-came).info()
}

// purge removes, every so often, the deleted models whose time has passed.
func (e *Engine) purge() {
	ticker := time.NewTicker(e.o.Sweep)
	defer ticker.Stop()
	for {
		select {
		case <-e.lifetime.Done():
			return
		case <-ticker.C:
		}
		if e.o.Store.Failed() != nil {
			continue // It is told elsewhere, and nothing can be removed.
		}
		for _, id := range e.overdue(e.o.Now()) {
			if err := e.removeOverdue(id); err != nil && e.lifetime.Err() == nil {
				e.o.Log.Error("a deleted model cannot be removed now", zap.String("model", id), zap.Error(err))
			}
		}
	}
}

// overdue are the deleted models whose time has passed.
func (e *Engine) overdue(now time.Time) (ids []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.mu.deleted == 0 {
		return nil
	}
	for _, i := range e.mu.table {
		if i.overdue(now) {
			ids = append(ids, i.id)
		}
	}
	return ids
}

func (i *instance) overdue(now time.Time) bool {
	e := i.entry.Load()
	return e.Deleted != 0 && e.Purge <= now.UnixNano()
}

// removeOverdue removes a model unless it was brought back meanwhile.
func (e *Engine) removeOverdue(id string) error {
	i, release, err := e.own(e.lifetime, id)
	if err != nil {
		return err
	}
	if !i.overdue(e.o.Now()) {
		release()
		return nil
	}
	return e.remove(e.lifetime, i, release)
}
