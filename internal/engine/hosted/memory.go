package hosted

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// InstanceBytes is what a model in memory takes beside its state.
	InstanceBytes = 2048
	// A load waits at most admissionWait for memory.
	admissionWait = 10 * time.Second
	// A load looks for memory again after admissionRetry: a model may leave without notice.
	admissionRetry = 10 * time.Millisecond
	// Copies of states may take 1/copiesShare of the memory for models, beside that memory.
	copiesShare = 4
)

// Memory admits states into the memory for models, and copies of states beside it.
type Memory struct {
	// limit is 0 without a limit.
	limit int64
	// resident + reserved <= limit, unless a single state is larger.
	resident, reserved atomic.Int64
	// wanted is the bytes of the states that wait in Reserve.
	wanted atomic.Int64
	// admitting is held while a state is admitted.
	admitting sync.Mutex
	// freed wakes one that waits in Reserve, pressure the one that lets idle models leave.
	freed, pressure chan struct{}
	copies          *semaphore.Weighted
}

func newMemory(limit int64) *Memory {
	m := &Memory{limit: max(0, limit), freed: make(chan struct{}, 1), pressure: make(chan struct{}, 1)}
	m.copies = semaphore.NewWeighted(math.MaxInt64)
	if limit > 0 {
		m.copies = semaphore.NewWeighted(m.maxCopies(math.MaxInt64))
	}
	return m
}

// maxCopies is the weight of copies of so many bytes: a state larger than the bound is copied while
// no other copy exists.
func (m *Memory) maxCopies(bytes int64) int64 {
	if m.limit == 0 {
		return 0
	}
	return min(bytes, max(1, m.limit/copiesShare))
}

// TakeCopies waits for memory for copies of so many bytes. The holder waits neither for a load nor
// for a model's turn: loads take copies too.
func (m *Memory) TakeCopies(ctx context.Context, bytes int64) (release func(), err error) {
	n := m.maxCopies(bytes)
	if err := m.copies.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("engine: wait for the memory of other copies of states: %w", context.Cause(ctx))
	}
	return func() { m.copies.Release(n) }, nil
}

// tryCopies is TakeCopies without a wait: release is nil while the memory is in use.
func (m *Memory) tryCopies(bytes int64) (release func()) {
	n := m.maxCopies(bytes)
	if !m.copies.TryAcquire(n) {
		return nil
	}
	return func() { m.copies.Release(n) }
}

// Resident is the bytes of the states in memory.
func (m *Memory) Resident() int64 { return m.resident.Load() }

// Pressure has a token when states should leave memory.
func (m *Memory) Pressure() <-chan struct{} { return m.pressure }

// Press asks for states to leave memory.
func (m *Memory) Press() {
	select {
	case m.pressure <- struct{}{}:
	default:
	}
}

// Goal reports whether states have to leave, and what the rest should take then: 9/10 of the limit at
// most, and little enough for those that wait.
func (m *Memory) Goal() (bytes int64, short bool) {
	wanted := m.wanted.Load()
	return m.limit - max(wanted, m.limit/10), m.limit > 0 && m.Taken()+wanted > m.limit
}

// HalfFull reports whether the states take more than half of the limit.
func (m *Memory) HalfFull() bool { return m.limit > 0 && m.resident.Load() > m.limit/2 }

// Taken is the bytes of the states in memory and of those being loaded.
func (m *Memory) Taken() int64 { return m.resident.Load() + m.reserved.Load() }

// add accounts for a resident state that has grown by so many bytes.
func (m *Memory) add(bytes int64) {
	m.resident.Add(bytes)
	if bytes < 0 {
		m.signalFreed()
	}
	if m.limit > 0 && m.Taken() > m.limit {
		m.Press()
	}
}

// Reserve waits until a state of so many bytes fits, and counts the bytes until release. Idle models
// leave memory for it. A state larger than the limit is admitted alone. It is ErrOverloaded if no
// memory comes free in time.
func (m *Memory) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	if release := m.TryReserve(bytes); release != nil {
		return release, nil
	}
	m.wanted.Add(bytes)
	defer m.wanted.Add(-bytes)
	limit := time.NewTimer(admissionWait)
	defer limit.Stop()
	for {
		if release := m.TryReserve(bytes); release != nil {
			return release, nil
		}
		m.Press()
		retry := time.NewTimer(admissionRetry)
		select {
		case <-m.freed:
		case <-retry.C:
		case <-limit.C:
			err = fmt.Errorf("%w: a state of %d bytes does not fit beside those in use, which take %d of %d", ErrOverloaded, bytes, m.Taken(), m.limit)
		case <-ctx.Done():
			err = fmt.Errorf("engine: wait for memory: %w", context.Cause(ctx))
		}
		retry.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// TryReserve is Reserve without a wait: release is nil if the state does not fit now.
func (m *Memory) TryReserve(bytes int64) (release func()) {
	if m.limit == 0 {
		return func() {}
	}
	m.admitting.Lock()
	defer m.admitting.Unlock()
	if taken := m.Taken(); taken > 0 && taken+bytes > m.limit {
		return nil
	}
	m.reserved.Add(bytes)
	return func() { m.reserved.Add(-bytes); m.signalFreed() }
}

func (m *Memory) signalFreed() {
	select {
	case m.freed <- struct{}{}:
	default:
	}
}
