package hosted

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

type pending struct {
	id       name          // immutable
	store    storage.Model // immutable
	choosing choosing
}

// choosing has the ids of callers under which predictions are being remembered. The zero value has none.
type choosing struct {
	mu    sync.Mutex
	ids   map[string]bool
	freed signal
}

// take waits until no other call has one of the ids, and takes them. The caller calls release at the end.
func (c *choosing) take(ctx context.Context, ids []string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slices.ContainsFunc(ids, func(id string) bool { return c.ids[id] }) {
		freed := c.freed.next()
		c.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			err = fmt.Errorf("engine: wait for a call with the same prediction id: %w", context.Cause(ctx))
		}
		if c.mu.Lock(); err != nil {
			return nil, err
		}
	}
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	for _, id := range ids {
		c.ids[id] = id != ""
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range ids {
			delete(c.ids, id)
		}
		if len(c.ids) == 0 {
			c.ids = nil // A map keeps the room of its largest size.
		}
		c.freed.wake()
	}, nil
}

func (p *pending) count() int64 { return p.store.CountPending() }

func (p *pending) get(id string, outputs int, now time.Time) (*record.Pending, error) {
	if p.store.CountPending() == 0 {
		return nil, nil
	}
	stored, ok, err := p.store.GetPending(id)
	if err != nil {
		return nil, p.id.storagef(fmt.Sprintf("look up prediction %q", id), err)
	}
	if !ok || !stored.Expiry.After(now) {
		return nil, nil
	}
	w, err := record.DecodePending(stored.Value, outputs)
	if err != nil {
		return nil, p.id.errorf(fmt.Sprintf("read prediction %q", id), fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return &w, nil
}

// pendingLimit bounds the pending predictions of a model whose own limit is modelLimit, or 0.
func (e *Env) pendingLimit(modelLimit int64) int64 {
	return min(cmp.Or(modelLimit, e.PendingLimit), e.PendingLimit)
}

// CheckPending rejects more pending predictions of a model than its limit or the limit of all models
// allows. ModelLimit is the limit of this model, or 0.
func (e *Env) CheckPending(id string, modelLimit, pending, more int64) error {
	if limit := e.pendingLimit(modelLimit); pending+more > limit {
		return fmt.Errorf("model %q: %w: %d wait and %d are to, the limit is %d", id, ErrPendingLimit, pending, more, limit)
	}
	if n := e.Store.CountPending(); n+more > e.PendingTotalLimit {
		return fmt.Errorf("%w: %d wait over all models and %d are to, the limit is %d", ErrPendingLimit, n, more, e.PendingTotalLimit)
	}
	return nil
}
