package consensus

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport. A request to append carries a message, and heard receives the messages of the
// requests to this server.
type transport struct {
	*raft.NetworkTransport
	// quiet is nil unless Options.Calm.
	quiet *quiet
	now   func() time.Time
	// tell returns the message of a request, and answered receives the number of each request that a follower has
	// answered in its term.
	tell     func(to raft.ServerID, term uint64) message
	answered func(to raft.ServerID, term, number uint64, begun time.Time)
	heard    func(term uint64, m message)
	self     raft.ServerAddress
	out      chan raft.RPC
	once     sync.Once
	closed   chan struct{}
	ended    sync.WaitGroup
	outcome  error
}

// LocalAddr implements raft.Transport. It returns the address that other servers connect to, because the address of
// the listener may differ.
func (t *transport) LocalAddr() raft.ServerAddress { return t.self }

func newTransport(self string, stream raft.StreamLayer, logger hclog.Logger, admitted func() error, heard func(term uint64, m message)) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: poolSize, Timeout: rpcTimeout, Logger: logger, MsgpackUseNewTimeFormat: true,
			// This disables pipelines. If a request fails while the sender waits for a place in a pipeline, the
			// library sends only heartbeats to the other server from then on.
			MaxRPCsInFlight: 1,
		}),
		heard: heard, self: raft.ServerAddress(self), out: make(chan raft.RPC), closed: make(chan struct{}),
	}
	t.ended.Go(func() { t.forward(admitted) })
	return t
}

// forward passes requests on to raft. It does not vote, and does not stand for election, while admitted returns an error.
func (t *transport) forward(admitted func() error) {
	for {
		var rpc raft.RPC
		select {
		case rpc = <-t.NetworkTransport.Consumer():
		case <-t.closed:
			return
		}
		switch request := rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			t.hear(request)
		case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
			if err := admitted(); err != nil {
				rpc.Respond(rejection(request), err)
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

// SetHeartbeatHandler implements raft.Transport. The library handles a heartbeat beside the other requests.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if request, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
			t.hear(request)
		}
		handle(rpc)
	})
}

func (t *transport) hear(r *raft.AppendEntriesRequest) {
	if m, ok := decodeMessage(r.Leader); ok { //nolint:staticcheck // The field is free for the message: see send.
		t.heard(r.Term, m)
	}
}

// send sends a request with a message. The message replaces the address in the field Leader, which the header also has.
func (t *transport) send(id raft.ServerID, to raft.ServerAddress, r *raft.AppendEntriesRequest, out *raft.AppendEntriesResponse) error {
	sent, begun := *r, t.now()
	m := t.tell(id, r.Term)
	sent.Leader = m.encode() //nolint:staticcheck // Raft reads the header instead.
	err := t.NetworkTransport.AppendEntries(id, target(id, to), &sent, out)
	if err == nil && out.Term == r.Term {
		t.answered(id, r.Term, m.number, begun)
	}
	return err
}

// rejection returns an empty response to a request, which the library encodes after the error.
func rejection(request any) any {
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

func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, r *raft.RequestVoteRequest, out *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, target(id, to), r, out)
}

func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, r *raft.RequestPreVoteRequest, out *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, target(id, to), r, out)
}

func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, r *raft.InstallSnapshotRequest, out *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, target(id, to), r, out, data)
}

func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, r *raft.TimeoutNowRequest, out *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, to), r, out)
}

func (t *transport) Consumer() <-chan raft.RPC { return t.out }

func (t *transport) Close() error {
	t.once.Do(func() {
		close(t.closed)
		t.outcome = t.NetworkTransport.Close()
		t.CloseStreams()
		t.ended.Wait()
	})
	return t.outcome
}

// freshness measures the age of the state: the time since the state last had all committed commands.
type freshness struct {
	applied func() uint64
	tail    *trackedStorage
	mu      struct {
		sync.Mutex
		term uint64
		// arrived has the newest requests of the term, by the number of each modulo keptArrivals.
		arrived [keptArrivals]arrival
		// current is the latest time at which the state had all committed commands, zero if unknown.
		current time.Time
		// at is the time at which the owner had committed the index commit that the state does not reach yet. It is
		// zero if the state reaches every known index.
		at     time.Time
		commit uint64
		// Before ownedAt, this server was the owner in ownedTerm.
		ownedTerm uint64
		ownedAt   time.Time
	}
}

// An owner has few requests to a follower on their way at a time. A request is not dated by one that is keptArrivals
// older.
const keptArrivals = 16

// arrival is when this server received a request of the owner.
type arrival struct {
	number uint64
	at     time.Time
}

// heard records a request of the owner of a term. The request is dated by the time at which the owner knew the commit
// index, which may be long before the request arrives. A request without an answered one before it has no date.
func (f *freshness) heard(now time.Time, term uint64, m message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.mu.term {
		return // A previous owner that was suspended and continues.
	}
	if term > f.mu.term {
		f.mu.term, f.mu.arrived = term, [keptArrivals]arrival{}
	}
	answered := f.mu.arrived[m.answered%keptArrivals]
	f.mu.arrived[m.number%keptArrivals] = arrival{m.number, now}
	f.reachCommit()
	if m.answered == 0 || answered.number != m.answered || !f.mu.at.IsZero() {
		return
	}
	f.mu.at, f.mu.commit = answered.at.Add(m.after), m.commit
	f.reachCommit()
}

// reachCommit moves at to current once the state has the index commit. The caller holds the lock.
func (f *freshness) reachCommit() {
	if f.mu.at.IsZero() || !f.has(f.mu.commit) {
		return
	}
	f.advance(f.mu.at)
	f.mu.at = time.Time{}
}

// advance records that the state had all committed commands at a time. The caller holds the lock.
func (f *freshness) advance(at time.Time) {
	if at.After(f.mu.current) {
		f.mu.current = at
	}
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

// confirm records that this server was the owner in a term until a time. An owner has applied every command that it has
// acknowledged.
func (f *freshness) confirm(term uint64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term == f.mu.ownedTerm && at.Before(f.mu.ownedAt) {
		return
	}
	f.mu.ownedTerm, f.mu.ownedAt = term, at
	f.advance(at)
}

// confirmed returns until when this server was the owner in a term, as far as it knows.
func (f *freshness) confirmed(term uint64) (at time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.ownedAt, f.mu.ownedTerm == term && !f.mu.ownedAt.IsZero()
}

func (f *freshness) age(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reachCommit()
	if f.mu.current.IsZero() {
		return Unheard
	}
	return max(now.Sub(f.mu.current), 0)
}
