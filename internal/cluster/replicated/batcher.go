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
	// An entry has at most maxBytes of commands, unless it has one command, and at most maxCommands.
	maxBytes    = 512 << 10
	maxCommands = 1024
	// At most maxInFlight entries are proposed at once.
	maxInFlight = 2
	// A rideDelay is how long a riding command waits for another command that needs an entry.
	rideDelay = 10 * time.Millisecond
	// With maxQueued bytes in the queue, a riding call waits until its command is committed.
	maxQueued = 16 << 20
)

// call is a command on its way into the log.
type call struct {
	body []byte
	// Commands that share a key are ordered by their calls. See keysOf.
	keys  [2]uint64
	rides bool
	// number counts the calls of the batcher.
	number uint64
	// claimed: the answer is determined, by whoever set it. Only that one answers.
	claimed atomic.Bool
	// done closes with the answer. It is nil if nobody waits.
	done  chan struct{}
	model *Model
	err   error
}

// answer ends the wait of a call. It returns false if nobody waits, or no longer.
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

// left returns true if the caller of a durable call does not wait any more.
func (c *call) left() bool { return !c.rides && c.claimed.Load() }

// wait returns the answer. Once ctx ends, the outcome is not known.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if c.claimed.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	<-c.done // The answer is on its way.
	return c.err
}

// flight is an entry that is proposed. In it calls[n] has the command n of the entry.
type flight struct {
	serial uint64
	calls  []*call
	bytes  int
}

// batcher joins the commands that wait into entries, and proposes the entries.
//
// The log may order two entries in flight either way. So the commands of two entries in flight share no key, and a
// riding command whose entry failed is sent again before the later commands of its keys.
type batcher struct {
	log      Log
	owner    func() bool
	proposer [16]byte
	// wake has a token if a sender may find work.
	wake chan struct{}
	// ride fires when the riding commands in the queue are due.
	ride    *time.Timer
	stop    context.CancelFunc
	senders sync.WaitGroup

	mu struct {
		sync.Mutex
		queue []*call
		// bytes counts those of the queue. urgent counts its commands that do not ride.
		bytes, urgent int
		// newest is the number of the last call.
		newest uint64
		// due: the riding commands do not wait for others. armed: ride is going to fire.
		due, armed bool
		serial     uint64
		flights    map[uint64]*flight
		// keys are those of the commands in flight.
		keys map[uint64]struct{}
		// landed, unless nil, closes with the end of the next flight, or when the queue lost calls.
		landed chan struct{}
		closed bool
	}
}

// newBatcher returns a batcher whose senders run until close.
func newBatcher(ctx context.Context, log Log, owner func() bool, proposer [16]byte) *batcher {
	b := &batcher{log: log, owner: owner, proposer: proposer, wake: make(chan struct{}, 1), ride: time.NewTimer(rideDelay)}
	b.ride.Stop()
	b.mu.flights, b.mu.keys = map[uint64]*flight{}, map[uint64]struct{}{}
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range maxInFlight {
		b.senders.Go(func() { b.send(ctx) })
	}
	return b
}

// close ends the proposals in flight, whose outcomes are then unknown. It answers ErrNotOwner to the calls that are
// not in an entry.
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

// add puts a command at the end of the queue. If the queue is too long, a riding call gets an answer to wait for too.
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

// arm starts the time that riding commands wait. The lock is held.
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

// take moves commands from the queue into an entry. It returns nil if there is nothing to propose now.
func (b *batcher) take() *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || b.mu.urgent == 0 && !b.mu.due {
		return nil
	}
	f := &flight{}
	left := b.mu.queue[:0]
	// A command that stays holds back the later ones that share a key.
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
		b.notify() // The queue may have lost calls whose callers have left.
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

// notify wakes who waits for the end of a flight. The lock is held.
func (b *batcher) notify() {
	if b.mu.landed != nil {
		close(b.mu.landed)
		b.mu.landed = nil
	}
}

// remove counts a command that leaves the queue. The lock is held.
func (b *batcher) remove(c *call) {
	b.mu.bytes -= len(c.body)
	if !c.rides {
		b.mu.urgent--
	}
}

func (b *batcher) entry(f *flight) []byte {
	data := command.NewEntry(command.Header{Group: group, Proposer: b.proposer, Serial: f.serial}, f.bytes)
	for _, c := range f.calls {
		data = append(data, c.body...)
	}
	return data
}

// land ends a flight with the answer of the log. Calls that Apply has answered keep that answer.
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
		err = fmt.Errorf("%w: the entry was committed and not applied", storage.ErrUnknown)
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

// flush waits until the commands of the calls so far are neither in the queue nor in flight.
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

// landing returns a channel that closes with the end of the next flight, nil if no call up to a number is in the queue
// or in flight.
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

// nextLanding returns a channel that notify closes. The lock is held.
func (b *batcher) nextLanding() <-chan struct{} {
	if b.mu.landed == nil {
		b.mu.landed = make(chan struct{})
	}
	return b.mu.landed
}
