// Package mailbox runs the jobs of one model one at a time, in the order of their arrival. Nothing
// else serialises a model.
//
// A job is an item or a task. Consecutive items are handled together as a batch, so that they share the fixed cost of the
// batch. Batches of several boxes may share it too: see Turns. A task runs alone. A task whose caller has left is skipped
// at its turn. An accepted item is always handled or rejected. An empty box has no goroutine.
package mailbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrFull rejects an item because too many rows are queued.
var ErrFull = errors.New("mailbox: full")

// Handler handles the jobs of a box. The box calls its methods one at a time.
type Handler[T any] interface {
	// Shares reports whether the next batch may be handled with the batches of other boxes. It must not wait.
	Shares() bool
	Reject(item T, why error)
	// Posted runs at the turn that Post has requested.
	Posted()
}

// Options of a box.
type Options struct {
	// Limit bounds the rows of the queued items. An item of more rows is accepted by an empty queue.
	Limit int
	// Batch bounds the rows of a batch. One item may have more.
	Batch int
}

// Box is a queue of jobs. Any number of goroutines may call its methods.
type Box[T any] struct {
	o       Options
	handler Handler[T]
	turns   *Turns[T]
	mu      struct {
		sync.Mutex
		jobs []job[T]
		rows int
		// busy: a goroutine runs a job, and takes the next one afterwards.
		busy bool
		// posted: a turn of Handler.Posted is queued.
		posted bool
		// closed rejects new jobs, dropped also the queued ones.
		closed, dropped error
	}
	// batch belongs to the goroutine that runs the jobs.
	batch []T
}

type job[T any] struct {
	item T
	rows int
	task *task
}

type task struct {
	ctx   context.Context //nolint:containedctx // It is handed to the work at its turn.
	work  func(context.Context) error
	taken atomic.Bool
	err   error
	done  chan struct{}
}

// New is an empty box, whose batches turns handles.
func New[T any](h Handler[T], turns *Turns[T], o Options) *Box[T] {
	return &Box[T]{o: o, handler: h, turns: turns}
}

// Put queues an item of so many rows. It does not wait: a full queue is ErrFull.
func (b *Box[T]) Put(item T, rows int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.mu.closed != nil:
		return b.mu.closed
	case b.mu.rows > 0 && b.mu.rows+rows > b.o.Limit:
		return fmt.Errorf("%w: %d rows are waiting, at most %d", ErrFull, b.mu.rows, b.o.Limit)
	}
	b.mu.rows += rows
	b.turns.queued.Add(1)
	b.add(job[T]{item: item, rows: rows})
	return nil
}

// Do runs work at its turn and returns its error. If the context ends first, Do fails with its
// cause: the work is skipped, or goes on without a caller if it had begun.
func (b *Box[T]) Do(ctx context.Context, work func(context.Context) error) error {
	t := &task{ctx: ctx, work: work, done: make(chan struct{})}
	b.mu.Lock()
	if err := b.mu.closed; err != nil {
		b.mu.Unlock()
		return err
	}
	b.add(job[T]{task: t})
	b.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		// A task that no goroutine has taken is skipped.
		t.taken.CompareAndSwap(false, true)
		return fmt.Errorf("wait for the model's turn: %w", context.Cause(ctx))
	}
}

// Post requests a turn of Handler.Posted, and does not wait for it. Several calls before the turn begins request one
// turn. A closed box drops the request.
func (b *Box[T]) Post() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.posted || b.mu.closed != nil {
		return
	}
	b.mu.posted = true
	b.add(job[T]{task: &task{ctx: context.Background(), done: make(chan struct{}), work: func(context.Context) error {
		b.mu.Lock()
		b.mu.posted = false
		b.mu.Unlock()
		b.handler.Posted()
		return nil
	}}})
}

// TryDo runs work at once if no job runs or is queued, and reports whether it did.
func (b *Box[T]) TryDo(work func()) bool {
	b.mu.Lock()
	if b.mu.busy || len(b.mu.jobs) > 0 || b.mu.closed != nil {
		b.mu.Unlock()
		return false
	}
	b.mu.busy = true
	b.mu.Unlock()
	work()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.busy = false
	if len(b.mu.jobs) == 0 {
		b.mu.jobs, b.batch = nil, nil // The caller of TryDo has seen that the model is idle.
	}
	b.start()
	return true
}

// Close rejects new jobs with err. Queued jobs run.
func (b *Box[T]) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = err
}

// Drop rejects new and queued jobs with err.
func (b *Box[T]) Drop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed, b.mu.dropped = err, err
}

// add queues a job. The caller holds the lock.
func (b *Box[T]) add(j job[T]) {
	b.mu.jobs = append(b.mu.jobs, j)
	b.start()
}

// start queues the box for a shared goroutine, or starts its goroutine, if jobs are queued and none runs. The caller holds
// the lock.
func (b *Box[T]) start() {
	if b.mu.busy || len(b.mu.jobs) == 0 {
		return
	}
	b.mu.busy = true
	if first := &b.mu.jobs[0]; first.task == nil && first.rows <= maxSharedRows && b.handler.Shares() {
		b.turns.add(b)
	} else {
		b.turns.Go(b.run)
	}
}

func (b *Box[T]) run() {
	for {
		t, rejected, ok := b.next()
		switch {
		case !ok:
			return
		case t != nil && rejected != nil:
			t.err = rejected
			close(t.done)
		case t != nil:
			t.run()
		case rejected != nil:
			b.reject(rejected)
		default:
			b.turns.handle([]Turn[T]{{b.handler, b.batch}})
			b.turns.gather(len(b.batch))
		}
	}
}

// next takes the next task, or the items of the next batch, with the reason to reject them or nil. It
// is not ok without jobs: the batch then belongs to the next goroutine.
func (b *Box[T]) next() (t *task, rejected error, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.batch)
	b.batch = b.batch[:0]
	n, rows := 0, 0
	for n < len(b.mu.jobs) {
		j := &b.mu.jobs[n]
		if len(b.batch) > 0 && (j.task != nil || rows+j.rows > b.o.Batch) {
			break
		}
		n++
		if j.task == nil {
			b.batch, rows = append(b.batch, j.item), rows+j.rows
			continue
		}
		if t := j.task; t.taken.CompareAndSwap(false, true) {
			b.drop(n)
			return t, b.mu.dropped, true
		}
	}
	b.drop(n)
	b.mu.rows -= rows
	if len(b.batch) > 0 {
		return nil, b.mu.dropped, true
	}
	b.mu.busy = false
	if cap(b.batch) > maxIdleJobs {
		b.batch = nil
	}
	return nil, nil, false
}

// drop takes the first n jobs off the queue. The caller holds the lock.
func (b *Box[T]) drop(n int) {
	rest := copy(b.mu.jobs, b.mu.jobs[n:])
	clear(b.mu.jobs[rest:])
	b.mu.jobs = b.mu.jobs[:rest]
	if rest == 0 && cap(b.mu.jobs) > maxIdleJobs {
		b.mu.jobs = nil
	}
}

// maxIdleJobs bounds the queue whose memory an empty box keeps.
const maxIdleJobs = 64

func (t *task) run() {
	t.err = t.work(t.ctx)
	close(t.done)
}
