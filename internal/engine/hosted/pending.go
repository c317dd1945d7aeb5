package hosted

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// pending are the predictions whose labels are awaited.
type pending struct {
	id    name          // immutable
	store storage.Model // immutable
	// choosing is held while predictions under ids of callers are remembered, keeping, shared, while
	// any are.
	choosing sync.Mutex
	keeping  sync.RWMutex
}

// count is the number of pending predictions.
func (p *pending) count() int64 { return p.store.CountWaiting() }

// key names the prediction of an id for a commit that answers it.
func (p *pending) key(id string) storage.Answered {
	return storage.Answered{Model: p.store.Number(), ID: id}
}

// get returns the pending prediction of an id, nil if there is none or it has expired.
func (p *pending) get(id string, outputs int, now time.Time) (*record.Waiting, error) {
	if p.store.CountWaiting() == 0 {
		return nil, nil
	}
	kept, ok, err := p.store.GetWaiting(id)
	if err != nil {
		return nil, p.id.storagef(fmt.Sprintf("look up prediction %q", id), err)
	}
	if !ok || !kept.Expiry.After(now) {
		return nil, nil
	}
	w, err := record.DecodeWaiting(kept.Value, outputs)
	if err != nil {
		return nil, p.id.errorf(fmt.Sprintf("read prediction %q", id), fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return &w, nil
}

// pendingLimit bounds the pending predictions of a model whose own limit is own, or 0.
func (e *Env) pendingLimit(own int64) int64 { return min(cmp.Or(own, e.PendingLimit), e.PendingLimit) }

// CheckPending refuses more pending predictions of a model than its limit or that of all models
// allows. Own is the model's own limit, or 0.
func (e *Env) CheckPending(id string, own, pending, more int64) error {
	if limit := e.pendingLimit(own); pending+more > limit {
		return fmt.Errorf("model %q: %w: %d wait and %d are to, the limit is %d", id, ErrPendingLimit, pending, more, limit)
	}
	if n := e.Store.CountWaiting(); n+more > e.PendingTotalLimit {
		return fmt.Errorf("%w: %d wait over all models and %d are to, the limit is %d", ErrPendingLimit, n, more, e.PendingTotalLimit)
	}
	return nil
}
