package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/storage"
)

// change says of which model, or of the aliases if model is nil, the store may have something new. What that is
// is read from the store, so that a change taken over twice or late does no harm.
type change struct {
	name  string
	model storage.Model
	// settled is closed at the place of a call that waits, which has no model.
	settled chan struct{}
}

// changes are the changes that the engine has not taken over, in the order of the commands.
type changes struct {
	mu struct {
		sync.Mutex
		queue []change
	}
	// pending counts the changes that are queued or being taken over.
	pending atomic.Int64
	// wake has a token after a change was queued.
	wake chan struct{}
}

func (c *changes) add(added change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.Add(1)
	c.mu.queue = append(c.mu.queue, added)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next takes the queued changes.
func (c *changes) next() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.mu.queue
	c.mu.queue = nil
	return queue
}

// settle waits until everything added before is taken over. It costs one atomic load if that is so.
func (c *changes) settle(ctx, lifetime context.Context) error {
	if c.pending.Load() == 0 {
		return nil
	}
	settled := make(chan struct{})
	c.add(change{settled: settled})
	select {
	case <-settled:
		return nil
	case <-lifetime.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for what other servers changed: %w", context.Cause(ctx))
	}
}
