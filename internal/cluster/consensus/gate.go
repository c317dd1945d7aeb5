package consensus

import (
	"context"
	"sync"
	"time"
)

// gate counts the calls that wait for raft, and holds proposals back while ownership moves.
type gate struct {
	mu struct {
		sync.Mutex
		inside int
		// idle closes when nobody is inside.
		idle chan struct{}
		// moving is nil while the gate is open, and closes when the gate opens.
		moving chan struct{}
		ended  bool
	}
}

func newGate() *gate {
	g := &gate{}
	g.mu.idle = make(chan struct{})
	close(g.mu.idle)
	return g
}

// enter counts a proposal, after it has waited until the gate is open.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		moving := g.mu.moving
		if g.mu.ended {
			g.mu.Unlock()
			return ErrClosed
		}
		if moving == nil {
			g.add()
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-moving:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add counts a call. The caller holds the lock.
func (g *gate) add() {
	if g.mu.inside == 0 {
		g.mu.idle = make(chan struct{})
	}
	g.mu.inside++
}

// count counts a call that is not a proposal. It does not wait.
func (g *gate) count() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.inside--; g.mu.inside == 0 {
		close(g.mu.idle)
	}
}

// shut shuts the gate to new proposals, and waits for the calls inside. If the gate is already shut, shut first waits
// until the gate opens.
func (g *gate) shut(ctx context.Context) (reopen func(), err error) {
	g.mu.Lock()
	for g.mu.moving != nil {
		moving := g.mu.moving
		g.mu.Unlock()
		select {
		case <-moving:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		g.mu.Lock()
	}
	moving := make(chan struct{})
	g.mu.moving = moving
	idle := g.mu.idle
	g.mu.Unlock()
	reopen = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.moving = nil
		close(moving)
	}
	select {
	case <-idle:
		return reopen, nil
	case <-ctx.Done():
		reopen()
		return nil, context.Cause(ctx)
	}
}

// end rejects new proposals for good, and waits for the calls inside. The wait is limited, because raft does not
// answer while the disk hangs.
func (g *gate) end(limit time.Duration) {
	g.mu.Lock()
	g.mu.ended = true
	idle := g.mu.idle
	g.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
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
