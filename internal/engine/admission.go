package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// A model in memory takes instanceBytes beside its state.
	instanceBytes = 2048
	// A load waits at most admissionWait for the memory that it needs.
	admissionWait = 10 * time.Second
	// It looks for memory again after admissionRetry: a model may leave without notice.
	admissionRetry = 10 * time.Millisecond
	// Copies of states may take a part of copiesShare of the memory for models, beside it.
	copiesShare = 4
)

// newCopies bounds the copies of states in bytes, where memory is limited.
func newCopies(o *Options) *semaphore.Weighted {
	if o.ModelMemory <= 0 {
		return semaphore.NewWeighted(math.MaxInt64)
	}
	return semaphore.NewWeighted(max(1, o.ModelMemory/copiesShare))
}

// most is the weight of copies of so many bytes: those of a state that is larger than the
// bound are made while there are no others.
func (s *shared) most(bytes int64) int64 {
	if s.o.ModelMemory <= 0 {
		return 0
	}
	return min(bytes, max(1, s.o.ModelMemory/copiesShare))
}

// takeBytes waits until there is memory for copies of so many bytes. Who holds some waits
// neither for a load nor for a model's turn: loads take some too.
func (s *shared) takeBytes(ctx context.Context, bytes int64) (done func(), err error) {
	n := s.most(bytes)
	if err := s.copyBytes.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("engine: wait for the memory of other copies of states: %w", context.Cause(ctx))
	}
	return func() { s.copyBytes.Release(n) }, nil
}

// taken is the memory of the states, and of those that are being loaded.
func (s *shared) taken() int64 { return s.resident.Load() + s.reserved.Load() }

// press asks for states to leave memory.
func (s *shared) press() {
	select {
	case s.pressure <- struct{}{}:
	default: // Asked already.
	}
}

// reserve waits until a state of so many bytes fits into the memory for models, and counts
// it among the states until done. Others leave memory for it. A state that fits in no case
// is let in alone.
func (s *shared) reserve(ctx context.Context, bytes int64) (done func(), err error) {
	if s.o.ModelMemory <= 0 {
		return func() {}, nil
	}
	done = func() { s.reserved.Add(-bytes); s.tellFreed() }
	if s.tryReserve(bytes) {
		return done, nil
	}
	s.wanted.Add(bytes)
	defer s.wanted.Add(-bytes)
	limit := time.NewTimer(admissionWait)
	defer limit.Stop()
	for !s.tryReserve(bytes) {
		s.press()
		retry := time.NewTimer(admissionRetry)
		select {
		case <-s.freed:
		case <-retry.C:
		case <-limit.C:
			err = fmt.Errorf("%w: a state of %d bytes does not fit beside those in use, which take %d of %d", ErrOverloaded, bytes, s.taken(), s.o.ModelMemory)
		case <-ctx.Done():
			err = fmt.Errorf("engine: wait for memory: %w", context.Cause(ctx))
		}
		retry.Stop()
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

func (s *shared) tryReserve(bytes int64) bool {
	s.admitting.Lock()
	defer s.admitting.Unlock()
	if taken := s.taken(); taken > 0 && taken+bytes > s.o.ModelMemory {
		return false
	}
	s.reserved.Add(bytes)
	return true
}

// tellFreed wakes one that waits for memory.
func (s *shared) tellFreed() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// stateBytes is about what the state of a model takes: what it took when it was last in
// memory, or its newest snapshot. A model that has neither has learned little.
func (i *instance) stateBytes() int64 {
	bytes := max(i.bytes.Load(), i.lastBytes.Load())
	if kept, err := i.Kept.Snapshots(); err == nil && len(kept) > 0 && bytes == 0 {
		if f, err := i.Kept.StatSnapshot(kept[0], 0); err == nil {
			bytes = f.Bytes
		}
	}
	return bytes + instanceBytes
}
