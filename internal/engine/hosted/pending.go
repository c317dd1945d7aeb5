package hosted

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// pending are the predictions whose labels are awaited.
type pending struct {
	id    name            // immutable
	store storage.Waiting // immutable
	// answered are predictions that the store has not removed yet; unremoved == len(answered).
	answered  []string     // turn
	unremoved atomic.Int64 // atomic
	// choosing is held while predictions under ids of callers are remembered, keeping, shared, while
	// any are.
	choosing sync.Mutex
	keeping  sync.RWMutex
}

// answeredAtOnce is how many answered predictions are removed together.
const answeredAtOnce = 256

// count is the number of pending predictions.
func (p *pending) count() int64 { return max(0, p.store.CountWaiting()-p.unremoved.Load()) }

// answer notes predictions whose labels were learned.
func (p *pending) answer(ids []string) {
	p.answered = append(p.answered, ids...)
	p.unremoved.Store(int64(len(p.answered)))
}

// remove removes the answered predictions. A crash before brings them back until recovery removes them
// again.
func (p *pending) remove() error {
	if len(p.answered) == 0 {
		return nil
	}
	if err := p.store.RemoveWaiting(p.answered); err != nil {
		return p.id.storagef("forget answered predictions", err)
	}
	clear(p.answered)
	p.answered = p.answered[:0]
	p.unremoved.Store(0)
	return nil
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

// drop removes the prediction of a replica whose label its leader has learned. One that a crash leaves behind
// expires: the leader knows the id.
func (p *pending) drop(id string) error {
	return p.id.storagef("forget an answered prediction", p.store.RemoveWaiting([]string{id}))
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
