package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

const (
	// An entry has at most maxCommands, and at most maxBytes of commands unless it has only one.
	maxBytes    = 512 << 10
	maxCommands = 1024
	// The senders propose at most maxInFlight entries at once.
	maxInFlight = 2
	// A riding command waits rideDelay for a durable command whose entry it can share.
	rideDelay = 10 * time.Millisecond
	// With maxQueued bytes in the queue, a riding call waits until its command is committed.
	maxQueued = 16 << 20
)

// call is a command on its way into the log.
type call struct {
	body []byte
	// The log has the commands of a key in the order of their calls. See keysOf.
	keys  [2]uint64
	rides bool
	// number counts the calls of the batcher.
	number uint64
	// claimed: a goroutine has determined the answer. Only the goroutine that set claimed answers.
	claimed atomic.Bool
	// done closes with the answer. It is nil if no caller waits.
	done  chan struct{}
	model *Model
	err   error
}

// answer ends the wait of a call. It returns false if no caller waits.
func (c *call) answer(m *Model, err error) bool {
	if c == nil || c.done == nil || !c.claimed.CompareAndSwap(false, true) {
		return false
	}
	c.model, c.err = m, err
	close(c.done)
	return true
}

// sharesKey reports whether a key of the call is in a set.
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

// left reports whether the caller of a durable call has stopped waiting.
func (c *call) left() bool { return !c.rides && c.claimed.Load() }

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
// The log may order two entries in flight either way. So the commands of two entries in flight share no key. A riding
// command whose entry failed is proposed again before the later commands of its keys.
type batcher struct {
	log      Log
	owner    func() bool
	group    uint64
	proposer [16]byte
	// wake has a token if the queue may have work for a sender.
	wake chan struct{}
	// ride fires when the riding commands in the queue are due.
	ride    *time.Timer
	stop    context.CancelFunc
	senders sync.WaitGroup

	mu struct {
		sync.Mutex
		queue []*call
		// bytes are the bytes of the commands in the queue. urgent counts its commands that do not ride.
		bytes, urgent int
		// newest is the number of the last call.
		newest uint64
		// due: riding commands no longer wait for a durable command. armed: the timer ride runs.
		due, armed bool
		serial     uint64
		flights    map[uint64]*flight
		// keys are the keys of the commands in flight.
		keys map[uint64]struct{}
		// landed, unless nil, closes when the next flight ends, or when calls leave the queue without a flight.
		landed chan struct{}
		closed bool
	}
}

// newBatcher returns a batcher whose senders run until close.
func newBatcher(ctx context.Context, o *Options, proposer [16]byte) *batcher {
	b := &batcher{log: o.Log, owner: o.Owner, group: o.Group, proposer: proposer, wake: make(chan struct{}, 1), ride: time.NewTimer(rideDelay)}
	b.ride.Stop()
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
	b.ride.Stop()
	b.mu.Lock()
	b.notify()
	b.mu.Unlock()
	for _, c := range queue {
		c.answer(nil, errClosed())
	}
}

func errClosed() error { return fmt.Errorf("the store is closed: %w", storage.ErrNotOwner) }

// add puts a command at the end of the queue. If the queue is too long, add makes a riding call wait for its answer.
func (b *batcher) add(c *call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return errClosed()
	}
	if !c.rides || b.mu.bytes > maxQueued {
		c.done = make(chan struct{})
	}
	b.mu.newest++
	c.number = b.mu.newest
	b.mu.queue = append(b.mu.queue, c)
	b.mu.bytes += len(c.body)
	if c.rides {
		b.arm()
		return nil
	}
	b.mu.urgent++
	b.signal()
	return nil
}

// arm starts the timer of the riding commands. The caller holds the lock.
func (b *batcher) arm() {
	if !b.mu.armed && !b.mu.due {
		b.mu.armed = true
		b.ride.Reset(rideDelay)
	}
}

func (b *batcher) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// flight returns the entry of a serial, nil if it is not in flight.
func (b *batcher) flight(serial uint64) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.flights[serial]
}

// send proposes entries until ctx ends.
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
		case <-b.ride.C:
			b.mu.Lock()
			b.mu.armed, b.mu.due = false, len(b.mu.queue) > b.mu.urgent
			b.mu.Unlock()
		}
	}
}

// take moves commands from the queue into an entry. It returns nil if no command can be proposed now.
func (b *batcher) take() *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || b.mu.urgent == 0 && !b.mu.due {
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
			b.remove(c)
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
		b.remove(c)
		f.calls = append(f.calls, c)
		f.bytes += len(c.body)
	}
	clear(b.mu.queue[len(left):])
	b.mu.queue = left
	b.mu.due = b.mu.due && len(left) > b.mu.urgent
	if len(f.calls) == 0 {
		b.notify() // take has removed calls whose callers have left.
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

// notify wakes goroutines that wait for the end of a flight. The caller holds the lock.
func (b *batcher) notify() {
	if b.mu.landed != nil {
		close(b.mu.landed)
		b.mu.landed = nil
	}
}

// remove counts a command that leaves the queue. The caller holds the lock.
func (b *batcher) remove(c *call) {
	b.mu.bytes -= len(c.body)
	if !c.rides {
		b.mu.urgent--
	}
}

func (b *batcher) entry(f *flight) []byte {
	data := command.NewEntry(command.Header{Group: b.group, Proposer: b.proposer, Serial: f.serial}, f.bytes)
	for _, c := range f.calls {
		data = command.Copy(data, c.body)
	}
	return data
}

// land ends a flight with the answer of the log. Calls that Apply has answered keep their answer.
func (b *batcher) land(f *flight, err error) {
	again := err != nil && b.owner()
	b.mu.Lock()
	again = again && !b.mu.closed
	delete(b.mu.flights, f.serial)
	var rides []*call
	for _, c := range f.calls {
		delete(b.mu.keys, c.keys[0])
		delete(b.mu.keys, c.keys[1])
		if again && c.rides {
			rides = append(rides, c)
			b.mu.bytes += len(c.body)
		}
	}
	if len(rides) > 0 {
		b.mu.queue = append(rides, b.mu.queue...)
		b.mu.due = false // The log gets time to recover.
		b.arm()
	}
	b.notify()
	b.mu.Unlock()
	switch {
	case err == nil:
		err = fmt.Errorf("%w: the entry is committed but not applied", storage.ErrUnknown)
	case !errors.Is(err, storage.ErrNotOwner):
		err = fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	for _, c := range f.calls {
		if !c.rides || !again {
			c.answer(nil, err)
		}
	}
}

// grounded waits until no command of a key is in flight.
func (b *batcher) grounded(ctx context.Context, key uint64) error {
	for {
		b.mu.Lock()
		_, flying := b.mu.keys[key]
		landed := (<-chan struct{})(nil)
		if flying {
			landed = b.nextLanding()
		}
		b.mu.Unlock()
		if !flying {
			return nil
		}
		select {
		case <-landed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// flush waits until the commands of all earlier calls are neither in the queue nor in flight.
func (b *batcher) flush(ctx context.Context) error {
	b.mu.Lock()
	through := b.mu.newest
	b.mu.due = len(b.mu.queue) > b.mu.urgent
	b.signal()
	b.mu.Unlock()
	for {
		landed := b.landing(through)
		if landed == nil {
			return nil
		}
		select {
		case <-landed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// landing returns a channel that closes when the next flight ends, nil if no call up to a number is in the queue or
// in flight.
func (b *batcher) landing(through uint64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	earlier := func(c *call) bool { return c.number <= through }
	waits := slices.ContainsFunc(b.mu.queue, earlier)
	for _, f := range b.mu.flights {
		waits = waits || slices.ContainsFunc(f.calls, earlier)
	}
	if !waits {
		return nil
	}
	return b.nextLanding()
}

// nextLanding returns a channel that notify closes. The caller holds the lock.
func (b *batcher) nextLanding() <-chan struct{} {
	if b.mu.landed == nil {
		b.mu.landed = make(chan struct{})
	}
	return b.mu.landed
}
