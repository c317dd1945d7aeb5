package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/storage"
)

// change names a model whose entry may have changed in the store. If model is nil, the aliases may have changed. The
// engine reads the new value from the store, so that it can take over a change twice or late.
type change struct {
	name  string
	model storage.Model
	// reached, unless nil, closes when the engine reaches this change. It marks the place of a call of await.
	reached chan struct{}
}

type changes struct {
	mu struct {
		sync.Mutex
		queue []change
	}
	pending atomic.Int64
	// wake has a token if changes may be queued.
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

func (c *changes) next() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.mu.queue
	c.mu.queue = nil
	return queue
}

// await waits until the engine has taken over all earlier changes. Without pending changes it costs one atomic load.
func (c *changes) await(ctx, lifetime context.Context) error {
	if c.pending.Load() == 0 {
		return nil
	}
	reached := make(chan struct{})
	c.add(change{reached: reached})
	select {
	case <-reached:
		return nil
	case <-lifetime.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("engine: wait for changes of other servers: %w", context.Cause(ctx))
	}
}
