package hosted

import (
	"context"
	"fmt"
	"sync/atomic"
)

// signal wakes all goroutines that wait for it.
type signal struct{ waiting atomic.Pointer[chan struct{}] }

// next returns a channel that the next wake closes.
func (s *signal) next() <-chan struct{} {
	fresh := make(chan struct{})
	for {
		if waiting := s.waiting.Load(); waiting != nil {
			return *waiting
		}
		if s.waiting.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

// wake closes the channels of next. Without waiting goroutines it costs one atomic load.
func (s *signal) wake() {
	if s.waiting.Load() == nil {
		return
	}
	if waiting := s.waiting.Swap(nil); waiting != nil {
		close(*waiting)
	}
}

// lock is held by one goroutine at a time, and a goroutine that waits for it can leave. It takes 16 bytes: Slots of
// one take 120, and every model at rest has a lock.
type lock struct {
	held  atomic.Bool
	freed signal
}

// take waits until the lock is free. What is what its holder does, for the error of a caller that leaves.
func (l *lock) take(ctx context.Context, what string) error {
	for !l.held.CompareAndSwap(false, true) {
		freed := l.freed.next()
		if l.held.CompareAndSwap(false, true) { // It was freed before next.
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("engine: wait for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

func (l *lock) free() {
	l.held.Store(false)
	l.freed.wake()
}
