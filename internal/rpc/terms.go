package rpc

import (
	"context"
	"sync"
	"time"
)

// farewell is how long an owner that has handed ownership on may answer its last calls. An owner
// that hangs never answers them.
const farewell = 500 * time.Millisecond

// terms end the forwarded calls to an owner when another server has become the owner: the old one
// may never answer, and its changes are refused.
type terms struct {
	mu sync.Mutex
	// owner is the id of the last known owner. ctx ends with its term. mu guards them.
	owner string
	ctx   context.Context //nolint:containedctx // Its lifetime is that of the term.
	end   context.CancelFunc
}

// of is the term of an owner. The term before ends after the farewell.
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

// during is a context of a call to the owner that is known now. It ends with the term.
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
