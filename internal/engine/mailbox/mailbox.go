// Package mailbox runs the jobs of one model one at a time, in the order in
// which they came. Nothing else serialises a model.
//
// A job is an item or a task. Items that wait behind each other are handed over
// together, so that they share what a batch costs once. A task runs alone. A
// task whose caller has left is skipped at its turn; an item that was taken is
// always handed over.
//
// A box costs no goroutine while it is empty.
package mailbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrFull is an item for which there is no room.
var ErrFull = errors.New("mailbox: full")

// Handler does what the jobs of a box are for. Its methods are called one at
// a time.
type Handler[T any] interface {
	// Handle takes the items of one batch, in their order. The slice is valid
	// during the call only.
	Handle(batch []T)
	// Refuse takes an item that is not handled, and why.
	Refuse(item T, why error)
}

// Options of a box.
type Options struct {
	// Limit bounds the rows of the items that wait. An item of more rows is
	// taken when none wait.
	Limit int
	// Batch bounds the rows of a batch. One item may have more.
	Batch int
	// Goroutines counts the goroutines of the box; its owner joins them.
	Goroutines *sync.WaitGroup
}

// Box is a queue of jobs. Its methods may be called by any number of
// goroutines at once.
type Box[T any] struct {
	o       Options
	handler Handler[T]
	mu      struct {
		sync.Mutex
		jobs []job[T]
		rows int
		// busy says that a job runs, and that its goroutine takes the next one.
		busy bool
		// closed refuses the jobs that come, dropped also those that wait.
		closed, dropped error
	}
	// batch belongs to the goroutine that runs the jobs.
	batch []T
}

// job is an item with its rows, or a task.
type job[T any] struct {
	item T
	rows int
	task *task
}

// task is work that has the model to itself.
type task struct {
	ctx   context.Context //nolint:containedctx // It is handed to the work at its turn.
	work  func(context.Context) error
	taken atomic.Bool
	err   error
	done  chan struct{}
}

// New is an empty box.
func New[T any](h Handler[T], o Options) *Box[T] { return &Box[T]{o: o, handler: h} }

// Put adds an item of so many rows. It does not wait: without room it fails
// with ErrFull.
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
	b.add(job[T]{item: item, rows: rows})
	return nil
}

// Rows are those of the items that wait.
func (b *Box[T]) Rows() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.rows
}

// Do runs work at its turn and gives its error. When the context ends first,
// Do fails with its cause: the work is then skipped, or goes on without a
// caller if it had begun.
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
		// A task that is not taken yet is not run any more.
		t.taken.CompareAndSwap(false, true)
		return fmt.Errorf("wait for the model's turn: %w", context.Cause(ctx))
	}
}

// TryDo runs work at once if no job runs or waits, and tells whether it did.
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
	b.start()
	return true
}

// Close refuses the jobs that come with err. Those that wait are run.
func (b *Box[T]) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = err
}

// Drop refuses the jobs that come and those that wait with err.
func (b *Box[T]) Drop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed, b.mu.dropped = err, err
}

// add queues a job. The box is locked.
func (b *Box[T]) add(j job[T]) {
	b.mu.jobs = append(b.mu.jobs, j)
	b.start()
}

// start begins a goroutine where there are jobs and none runs. The box is
// locked.
func (b *Box[T]) start() {
	if b.mu.busy || len(b.mu.jobs) == 0 {
		return
	}
	b.mu.busy = true
	b.o.Goroutines.Go(b.run)
}

// run runs jobs until there are none.
func (b *Box[T]) run() {
	for {
		t, refused, ok := b.next()
		switch {
		case !ok:
			return
		case t != nil && refused != nil:
			t.err = refused
			close(t.done)
		case t != nil:
			t.run()
		case refused != nil:
			for _, item := range b.batch {
				b.handler.Refuse(item, refused)
			}
		default:
			b.handler.Handle(b.batch)
			// Those who have their answer may come with the next item: it then
			// shares the next batch.
			runtime.Gosched()
		}
	}
}

// next takes the next task, or the items of the next batch, and why they are
// refused if they are. It is not ok when there are no jobs: the batch then
// belongs to the next goroutine.
func (b *Box[T]) next() (t *task, refused error, ok bool) {
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
	if cap(b.batch) > keptJobs {
		b.batch = nil
	}
	return nil, nil, false
}

// drop takes the first jobs off the queue. The box is locked.
func (b *Box[T]) drop(n int) {
	rest := copy(b.mu.jobs, b.mu.jobs[n:])
	clear(b.mu.jobs[rest:])
	b.mu.jobs = b.mu.jobs[:rest]
	if rest == 0 && cap(b.mu.jobs) > keptJobs {
		b.mu.jobs = nil
	}
}

// keptJobs is the length of a queue whose memory an empty box keeps.
const keptJobs = 64

func (t *task) run() {
	t.err = t.work(t.ctx)
	close(t.done)
}
