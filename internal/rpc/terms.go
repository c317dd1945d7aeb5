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
// previous owner may never answer, and the log rejects its changes.
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

// allTerms are the terms of the owners of the groups to which this server has forwarded calls.
type allTerms struct {
	mu     sync.Mutex
	groups map[uint32]*terms
	// watching ends with stop. A watcher watches the owner of each group.
	watching context.Context //nolint:containedctx // The context ends the watchers.
	stop     context.CancelFunc
	watchers sync.WaitGroup
}

func newAllTerms() *allTerms {
	a := &allTerms{groups: map[uint32]*terms{}}
	a.watching, a.stop = context.WithCancel(context.Background())
	return a
}

func (a *allTerms) of(g Group) *terms {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.groups[g.Number]
	if t == nil {
		t = new(terms)
		a.groups[g.Number] = t
		if a.watching.Err() == nil {
			a.watchers.Go(func() { t.watch(a.watching, g.Cluster) })
		}
	}
	return t
}

func (a *allTerms) close() {
	a.mu.Lock()
	a.stop()
	a.mu.Unlock()
	a.watchers.Wait()
}

// during returns the context of a call to the current owner of a group. It ends with the owner's
// term.
func (a *allTerms) during(ctx context.Context, g Group) (context.Context, context.CancelFunc) {
	owner, _ := g.Cluster.Owner()
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(a.of(g).of(owner), cancel)
	return ctx, func() { forget(); cancel() }
}

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
