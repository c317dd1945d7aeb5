package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's, and reports how far the owner has committed whenever the owner says it.
type transport struct {
	*raft.NetworkTransport
	self    raft.ServerAddress
	out     chan raft.RPC
	once    sync.Once
	closed  chan struct{}
	ended   sync.WaitGroup
	outcome error
}

// LocalAddr implements raft.Transport. It is the address that other servers connect to: the listener's may be another.
func (t *transport) LocalAddr() raft.ServerAddress { return t.self }

func newTransport(self string, stream raft.StreamLayer, logger hclog.Logger, heard func(term, commit uint64)) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: poolSize, Timeout: rpcTimeout, Logger: logger, MsgpackUseNewTimeFormat: true,
			// No pipelines. If a request fails while the sender waits for a place in a pipeline, the library sends
			// nothing to the other server any more, heartbeats apart.
			MaxRPCsInFlight: 1,
		}),
		self: raft.ServerAddress(self), out: make(chan raft.RPC), closed: make(chan struct{}),
	}
	t.ended.Go(func() { t.forward(heard) })
	return t
}

func (t *transport) forward(heard func(term, commit uint64)) {
	for {
		var rpc raft.RPC
		select {
		case rpc = <-t.NetworkTransport.Consumer():
		case <-t.closed:
			return
		}
		if request, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && request.LeaderCommitIndex > 0 {
			heard(request.Term, request.LeaderCommitIndex)
		}
		select {
		case t.out <- rpc:
		case <-t.closed:
			return
		}
	}
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.out }

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.once.Do(func() {
		close(t.closed)
		t.outcome = t.NetworkTransport.Close()
		t.CloseStreams()
		t.ended.Wait()
	})
	return t.outcome
}

// tail tells of the end of the log.
type tail interface {
	// LastIndex is that of the last entry, lastCommand that of the last one that is applied.
	LastIndex() (uint64, error)
	lastCommand() uint64
}

// freshness knows when the state of this server had all that was committed.
type freshness struct {
	applied func() uint64
	tail    tail
	mu      struct {
		sync.Mutex
		term uint64
		// current is when the state was last known to have all that was committed, zero if never.
		current time.Time
		// The owner had committed commit at the time at, and the state does not have it yet.
		// Nothing is awaited if at is zero.
		at     time.Time
		commit uint64
	}
}

// heard notes that the owner of a term has committed an index.
func (f *freshness) heard(now time.Time, term, commit uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.mu.term {
		return // An owner of the past, which was stopped and goes on.
	}
	f.mu.term = term
	f.settle()
	if f.mu.at.IsZero() {
		f.mu.at, f.mu.commit = now, commit
		f.settle()
	}
}

// settle needs the lock.
func (f *freshness) settle() {
	if f.mu.at.IsZero() || !f.has(f.mu.commit) {
		return
	}
	f.mu.current, f.mu.at = f.mu.at, time.Time{}
}

// has reports whether the state has all commands up to an index. Not every entry is a command.
func (f *freshness) has(index uint64) bool {
	applied := f.applied()
	if applied >= index {
		return true
	}
	last, err := f.tail.LastIndex()
	return err == nil && last >= index && applied >= f.tail.lastCommand()
}

func (f *freshness) confirm(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.current, f.mu.at = now, time.Time{}
}

func (f *freshness) age(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	if f.mu.current.IsZero() {
		return Unheard
	}
	return max(now.Sub(f.mu.current), 0)
}
