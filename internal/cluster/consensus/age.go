package consensus

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport. It passes on the requests of the owner, and calls heard with the commit
// index of each.
type transport struct {
	*raft.NetworkTransport
	// quiet is nil unless Options.Calm.
	quiet   *quiet
	now     func() time.Time
	commit  func() uint64
	self    raft.ServerAddress
	out     chan raft.RPC
	once    sync.Once
	closed  chan struct{}
	ended   sync.WaitGroup
	outcome error
}

// LocalAddr implements raft.Transport. It returns the address that other servers connect to, because the address of
// the listener may differ.
func (t *transport) LocalAddr() raft.ServerAddress { return t.self }

func newTransport(self string, stream raft.StreamLayer, logger hclog.Logger, admitted func() error, heard func(term, commit uint64)) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: poolSize, Timeout: rpcTimeout, Logger: logger, MsgpackUseNewTimeFormat: true,
			// This disables pipelines. If a request fails while the sender waits for a place in a pipeline, the
			// library sends only heartbeats to the other server from then on.
			MaxRPCsInFlight: 1,
		}),
		self: raft.ServerAddress(self), out: make(chan raft.RPC), closed: make(chan struct{}),
	}
	t.ended.Go(func() { t.forward(admitted, heard) })
	return t
}

// forward passes requests on to raft. It refuses to vote, and to stand for election, while admitted returns an error.
func (t *transport) forward(admitted func() error, heard func(term, commit uint64)) {
	for {
		var rpc raft.RPC
		select {
		case rpc = <-t.NetworkTransport.Consumer():
		case <-t.closed:
			return
		}
		switch request := rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			if request.LeaderCommitIndex > 0 {
				heard(request.Term, request.LeaderCommitIndex)
			}
		case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
			if err := admitted(); err != nil {
				rpc.Respond(refusal(request), err)
				continue
			}
		}
		select {
		case t.out <- rpc:
		case <-t.closed:
			return
		}
	}
}

// refusal returns an empty response to a request, which the library encodes after the error.
func refusal(request any) any {
	switch request.(type) {
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{}
	}
	return &raft.TimeoutNowResponse{}
}

// targetSeparator is in no id.
const targetSeparator = "@"

// target names a member for Dial of the layer. The library keeps connections by this name, so that a connection to a
// member never carries the requests for another member at the same address.
func target(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + targetSeparator + address
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, r *raft.RequestVoteRequest, out *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, target(id, to), r, out)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, r *raft.RequestPreVoteRequest, out *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, target(id, to), r, out)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, r *raft.InstallSnapshotRequest, out *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, target(id, to), r, out, data)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, r *raft.TimeoutNowRequest, out *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, to), r, out)
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

// tail is the end of the log.
type tail interface {
	// LastIndex returns the index of the last entry, lastCommand the index of the last entry that the machine
	// applies.
	LastIndex() (uint64, error)
	lastCommand() uint64
}

// freshness measures the age of the state: the time since the state last had all committed commands.
type freshness struct {
	applied func() uint64
	tail    tail
	mu      struct {
		sync.Mutex
		term uint64
		// current is the latest time at which the state had all committed commands, zero if unknown.
		current time.Time
		// at is the time at which the owner had committed the index commit that the state does not reach yet. It is
		// zero if the state reaches every known index.
		at     time.Time
		commit uint64
	}
}

// heard records that the owner of a term has committed an index.
func (f *freshness) heard(now time.Time, term, commit uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.mu.term {
		return // A previous owner that was suspended and continues.
	}
	f.mu.term = term
	f.settle()
	if f.mu.at.IsZero() {
		f.mu.at, f.mu.commit = now, commit
		f.settle()
	}
}

// settle moves at to current once the state has the index commit. The caller holds the lock.
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
