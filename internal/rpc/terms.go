package rpc

import (
	"context"
	"sync"
	"time"
)

// farewell is the time for a previous owner to answer its last calls. After it they end, because a
// previous owner that hangs never answers.
const farewell = 500 * time.Millisecond

// terms ends the forwarded calls to an owner after another server has become the owner. The
// previous owner may never answer, and the log refuses its changes.
type terms struct {
	mu sync.Mutex
	// owner is the id of the last known owner. ctx ends with the owner's term. mu guards both.
	owner string
	ctx   context.Context //nolint:containedctx // The context lives as long as the term.
	end   context.CancelFunc
}

// of returns the term of an owner. A new owner ends the previous term, after the farewell.
func (t *terms) of(owner string) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || owner != "" && owner != t.owner {
		if t.end != nil {
			time.AfterFunc(farewell, t.end)
		}
		t.owner = owner
		t.ctx, t.end = context.WithCancel(context.Background())
	}
	return t.ctx
}

// during returns the context of a call to the current owner. It ends with the owner's term.
func (t *terms) during(ctx context.Context, cluster Ownership) (context.Context, context.CancelFunc) {
	owner, _ := cluster.Owner()
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(t.of(owner), cancel)
	return ctx, func() { forget(); cancel() }
}

// watch ends terms until the context ends.
func (t *terms) watch(ctx context.Context, cluster Ownership) {
	for ctx.Err() == nil {
		turned := cluster.Turned()
		owner, _ := cluster.Owner()
		t.of(owner)
		select {
		case <-turned:
		case <-ctx.Done():
		}
	}
	t.of("")
	t.end()
}
