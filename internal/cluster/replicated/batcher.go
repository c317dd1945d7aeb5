package replicated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

const (
	// An entry has at most maxCommands, and at most maxBytes of commands unless it has only one, which is a row.
	maxBytes    = 512 << 10
	maxCommands = 1024
	// The senders propose at most maxInFlight entries at once.
	maxInFlight = 2
)

// call is a command on its way into the log.
type call struct {
	body []byte
	// The log has the commands of a key in the order of their calls. See keysOf.
	keys [2]uint64
	// whole is the command that a Join joins. The store has all its parts while Store.others is others.
	whole  []byte
	others uint64
	// claimed: a goroutine has determined the answer. Only the goroutine that set claimed answers.
	claimed atomic.Bool
	// done closes with the answer.
	done  chan struct{}
	model *Model
	err   error
}

func newCall(c *command.Command, keys [2]uint64) *call {
	return &call{body: c.Append(make([]byte, 0, sizeOf(c))), keys: keys, done: make(chan struct{})}
}

// answer ends the wait of a call. It returns false if no caller waits.
func (c *call) answer(m *Model, err error) bool {
	if c == nil || !c.claimed.CompareAndSwap(false, true) {
		return false
	}
	c.model, c.err = m, err
	close(c.done)
	return true
}

func (c *call) sharesKey(set map[uint64]struct{}) bool {
	if len(set) == 0 {
		return false
	}
	_, first := set[c.keys[0]]
	_, second := set[c.keys[1]]
	return first || second
}

func (c *call) addKeys(set map[uint64]struct{}) {
	set[c.keys[0]], set[c.keys[1]] = struct{}{}, struct{}{}
}

func (c *call) left() bool { return c.claimed.Load() }

// wait waits for the answer. If ctx ends first, the outcome is unknown.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if c.claimed.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	<-c.done // Another goroutine has claimed the call, and answers it now.
	return c.err
}

// flight is an entry in flight: proposed and not answered. Command n of the entry is the command of calls[n].
type flight struct {
	serial uint64
	calls  []*call
	bytes  int
}

// batcher joins queued commands into entries, and proposes the entries.
//
// The log may order two entries in flight either way. So the commands of two entries in flight share no key.
type batcher struct {
	log      Log
	group    uint64
	format   func() uint32
	proposer [16]byte
	// wake has a token if the queue may have work for a sender.
	wake    chan struct{}
	stop    context.CancelFunc
	senders sync.WaitGroup

	mu struct {
		sync.Mutex
		queue   []*call
		serial  uint64
		flights map[uint64]*flight
		keys    map[uint64]struct{}
		closed  bool
	}
}

// newBatcher returns a batcher whose senders run until close.
func newBatcher(ctx context.Context, o *Options, proposer [16]byte) *batcher {
	b := &batcher{log: o.Log, group: o.Group, format: o.Local.Format, proposer: proposer, wake: make(chan struct{}, 1)}
	b.mu.flights, b.mu.keys = map[uint64]*flight{}, map[uint64]struct{}{}
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range maxInFlight {
		b.senders.Go(func() { b.send(ctx) })
	}
	return b
}

// close ends the proposals in flight, whose outcomes are then unknown. It answers ErrNotOwner to the calls in the
// queue.
func (b *batcher) close() {
	b.mu.Lock()
	b.mu.closed = true
	queue := b.mu.queue
	b.mu.queue = nil
	b.mu.Unlock()
	b.stop()
	b.senders.Wait()
	for _, c := range queue {
		c.answer(nil, errClosed())
	}
}

func errClosed() error { return fmt.Errorf("the store is closed: %w", storage.ErrNotOwner) }

func (b *batcher) add(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return errClosed()
	}
	b.mu.queue = append(b.mu.queue, c)
	b.signal()
	return nil
}

func (b *batcher) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) flight(serial uint64) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.flights[serial]
}

func (b *batcher) send(ctx context.Context) {
	for {
		if f := b.take(); f != nil {
			b.land(f, b.log.Propose(ctx, b.entry(f)))
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
	}
}

// take moves commands from the queue into an entry. It returns nil if no command can be proposed now.
func (b *batcher) take() *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || len(b.mu.queue) == 0 {
		return nil
	}
	f := &flight{}
	left := b.mu.queue[:0]
	// A command that stays in the queue holds back later commands that share a key with it.
	var held map[uint64]struct{}
	for n, c := range b.mu.queue {
		if len(f.calls) == maxCommands || len(f.calls) > 0 && f.bytes+len(c.body) > maxBytes {
			left = append(left, b.mu.queue[n:]...)
			break
		}
		if c.left() {
			continue
		}
		if c.sharesKey(b.mu.keys) || c.sharesKey(held) {
			if held == nil {
				held = map[uint64]struct{}{}
			}
			c.addKeys(held)
			left = append(left, c)
			continue
		}
		f.calls = append(f.calls, c)
		f.bytes += len(c.body)
	}
	clear(b.mu.queue[len(left):])
	b.mu.queue = left
	if len(f.calls) == 0 {
		return nil
	}
	for _, c := range f.calls {
		c.addKeys(b.mu.keys)
	}
	b.mu.serial++
	f.serial = b.mu.serial
	b.mu.flights[f.serial] = f
	if len(left) > 0 {
		b.signal()
	}
	return f
}

func (b *batcher) entry(f *flight) []byte {
	data := command.NewLogEntry(command.Header{Format: b.format(), Group: b.group, Proposer: b.proposer, Serial: f.serial}, f.bytes)
	for _, c := range f.calls {
		data = append(data, c.body...)
	}
	return data
}

// land ends a flight with the answer of the log. Calls that Apply has answered keep their answer.
func (b *batcher) land(f *flight, err error) {
	b.mu.Lock()
	delete(b.mu.flights, f.serial)
	for _, c := range f.calls {
		delete(b.mu.keys, c.keys[0])
		delete(b.mu.keys, c.keys[1])
	}
	b.mu.Unlock()
	switch {
	case err == nil:
		err = fmt.Errorf("%w: the entry is committed but not applied", storage.ErrUnknown)
	case !errors.Is(err, storage.ErrNotOwner):
		err = fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	for _, c := range f.calls {
		c.answer(nil, err)
	}
}
