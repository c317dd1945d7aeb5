package mailbox

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Turn is a batch of one box.
type Turn[T any] struct {
	Handler Handler[T]
	// Items are in the order of Put. They are valid while the turn is handled.
	Items []T
}

// Turns runs the jobs of boxes. One goroutine handles the batches of boxes that become ready together in one call, so that
// the batches share its fixed cost. A box whose handler does not share, and a box with a task, has its own goroutine.
type Turns[T any] struct {
	// WaitGroup counts the goroutines.
	sync.WaitGroup

	handle func([]Turn[T])
	// queued counts the items that were ever put into the boxes.
	queued atomic.Int64
	// limit bounds the goroutines that share. Fewer goroutines take larger groups.
	limit int
	mu    struct {
		sync.Mutex
		// ready are boxes with items, which are busy.
		ready []*Box[T]
		// sharing counts the goroutines of share.
		sharing int
	}
}

const (
	// One call handles the batches of at most maxShared boxes.
	maxShared = 64
	// An item of more than maxSharedRows rows does not wait for others, nor others for it.
	maxSharedRows = 64
)

// NewTurns returns turns whose batches handle takes. Several goroutines call handle, each with other boxes.
func NewTurns[T any](handle func([]Turn[T])) *Turns[T] {
	return &Turns[T]{handle: handle, limit: max(1, runtime.GOMAXPROCS(0)/2)}
}

// add queues a box whose first job is an item. The caller holds the lock of the box.
func (t *Turns[T]) add(b *Box[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.ready = append(t.mu.ready, b)
	if t.mu.sharing < t.limit {
		t.mu.sharing++
		t.Go(t.share)
	}
}

// share handles the batches of ready boxes until no box is ready.
func (t *Turns[T]) share() {
	var boxes []*Box[T]
	var turns []Turn[T]
	for {
		t.gather(maxShared)
		if boxes = t.take(boxes[:0]); len(boxes) == 0 {
			return
		}
		for _, b := range boxes {
			if _, rejected, _ := b.next(); rejected != nil {
				b.reject(rejected)
			} else {
				turns = append(turns, Turn[T]{b.handler, b.batch})
			}
		}
		t.handle(turns)
		for _, b := range boxes {
			b.finish()
		}
		clear(boxes)
		clear(turns)
		turns = turns[:0]
	}
}

// gather yields to the callers of the boxes while they put items, which then share the next batch or call of handle. It
// yields at most so many times: a stream of items cannot hold the next batch back.
func (t *Turns[T]) gather(yields int) {
	queued := t.queued.Load()
	for range yields {
		before := queued
		runtime.Gosched()
		if queued = t.queued.Load(); queued == before {
			return
		}
	}
}

// take takes ready boxes. Without any, the calling goroutine no longer shares.
func (t *Turns[T]) take(boxes []*Box[T]) []*Box[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.mu.ready), maxShared)
	boxes = append(boxes, t.mu.ready[:n]...)
	t.mu.ready = slices.Delete(t.mu.ready, 0, n)
	if n == 0 {
		t.mu.sharing--
	}
	return boxes
}

func (b *Box[T]) reject(why error) {
	for _, item := range b.batch {
		b.handler.Reject(item, why)
	}
}

// finish ends the turn of a batch.
func (b *Box[T]) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.batch)
	if b.batch = b.batch[:0]; cap(b.batch) > maxIdleJobs {
		b.batch = nil
	}
	b.mu.busy = false
	b.start()
}
