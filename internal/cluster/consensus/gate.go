package consensus

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// allCalls is the weight of a semaphore, which no number of calls reaches.
const allCalls = math.MaxInt64

// gate counts the calls that wait for raft, and holds proposals back while ownership moves: a move takes the whole weight
// of proposals.
type gate struct {
	proposals, others *semaphore.Weighted
	ended             context.Context //nolint:containedctx // It ends the waits of proposals.
	reject            context.CancelFunc
}

func newGate() *gate {
	g := &gate{proposals: semaphore.NewWeighted(allCalls), others: semaphore.NewWeighted(allCalls)}
	g.ended, g.reject = context.WithCancel(context.Background())
	return g
}

// enter counts a proposal, after it has waited until no move is under way.
func (g *gate) enter(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ended, func() { cancel(ErrClosed) })() //nolint:contextcheck // The gate may end first.
	if g.proposals.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	if g.ended.Err() != nil { // The wait in end may be over, so it does not count this proposal.
		g.leave()
		return ErrClosed
	}
	return nil
}

func (g *gate) leave() { g.proposals.Release(1) }

// enterOther counts a call that is no proposal. It does not wait, and returns false once the gate has ended.
func (g *gate) enterOther() bool { return g.ended.Err() == nil && g.others.TryAcquire(1) }

func (g *gate) leaveOther() { g.others.Release(1) }

// end rejects new proposals for good, and waits for the calls inside. The wait is limited, because raft does not
// answer while the disk hangs.
//
//nolint:contextcheck,nolintlint // The callers of Close have no context.
func (g *gate) end(limit time.Duration) {
	g.reject()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, calls := range []*semaphore.Weighted{g.proposals, g.others} {
		if calls.Acquire(ctx, allCalls) == nil {
			calls.Release(allCalls)
		}
	}
}

type broadcast struct {
	mu   sync.Mutex
	next chan struct{}
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
