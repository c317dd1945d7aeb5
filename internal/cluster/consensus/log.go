// Package consensus keeps a log of entries that is the same on all servers of a cluster, with Raft. The leader of the
// Raft group owns the log: only the owner proposes entries, and every server applies them in order. The package does
// not interpret entries.
package consensus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/zap"

	"hindsight/internal/engine/storage"
)

// Sentinels.
var (
	// ErrNotKnown: the entry may be in the log, or may enter the log later.
	ErrNotKnown = errors.New("cluster: the entry may or may not be in the log")
	ErrRemoved  = errors.New("cluster: the cluster has removed this server: empty its data directory to join again")
	ErrStalled  = errors.New("cluster: the disk hangs: a write of the log has not returned")
	ErrClosed   = errors.New("cluster: the log is closed")
	// ErrNoSuccessor: the owner stays.
	ErrNoSuccessor = errors.New("cluster: no other server can own the models at present")
)

const (
	electionTimeout = 500 * time.Millisecond
	leaseTimeout    = electionTimeout / 2
	commitTimeout   = 10 * time.Millisecond
	// The timeouts of one of several logs of a server, whose messages at rest would else add up.
	calmElectionTimeout = 1500 * time.Millisecond
	calmLease           = time.Second
	calmCommitTimeout   = 100 * time.Millisecond
	// A request to another server has at most maxAppend entries. The request may take rpcTimeout, and the time of its
	// bytes at minRate, in bytes a second.
	rpcTimeout = 5 * time.Second
	maxAppend  = 32
	minRate    = 512 << 10
	// Raft reads the newest entry for each message to a follower. The newest entries are in memory.
	cachedEntries = 8
	poolSize      = 3
	// Raft takes a proposal within enqueueTimeout, or rejects it.
	enqueueTimeout = 2 * time.Second
	// A write of the log may take stallTimeout.
	stallTimeout  = 5 * time.Second
	watchInterval = time.Second
	// Close waits proposalTimeout for proposals, closes the connections, waits stepDownTimeout for the remaining
	// proposals, and then shutdownTimeout for raft.
	proposalTimeout  = 2 * time.Second
	shutdownTimeout  = 10 * time.Second
	stepDownTimeout  = 2 * calmElectionTimeout
	transferAttempts = 3
	// The requests of an earlier transfer end within transferTimeout.
	transferTimeout  = 3 * rpcTimeout
	ownRetryInterval = 50 * time.Millisecond
)

// Member is a server of the cluster.
type Member struct {
	ID, Address string
	// Voter: the server counts for majorities.
	Voter bool
}

// Marks say when a log is cut. A zero field is the default.
type Marks struct {
	// Threshold is the number of entries between two marks. Trailing is the number of entries that the log keeps
	// before a mark. Interval is the smallest time between two marks.
	Threshold, Trailing uint64
	Interval            time.Duration
}

// Options of a log.
type Options struct {
	// Group is the number of the log's group. Logs of other groups may use the same Stream.
	Group uint32
	// Calm: the server has many logs. Each sends fewer messages at rest, and elects its owner later.
	Calm    bool
	Self    Member
	Storage Storage
	Stream  *Stream
	// Apply applies an entry to the state of this server, or skips an entry that the state already has. After an
	// error the log applies no further entry.
	Apply func(index uint64, entry []byte) error
	Sync  func(context.Context) error
	// Has reports whether the state has an entry, and all entries before it.
	Has func(index uint64) bool
	// Behind reports that the owner's log no longer has the entries after the state. A checkpoint that has the entry
	// of the index must replace the state. Behind must not wait.
	Behind func(index uint64)
	Marks  Marks
	Now    func() time.Time
	Logger *zap.Logger
}

// Log is the log of one Raft group. Its methods may be called concurrently.
type Log struct {
	o   Options
	log *zap.Logger
	// begun closes once raft is set.
	begun     chan struct{}
	raft      *raft.Raft
	layer     *layer
	transport *transport
	machine   *machine
	tracked   *trackedStorage
	freshness *freshness
	contacts  contacts
	lease     time.Duration
	verifying struct {
		sync.Mutex
		current *verification
	}
	gate *gate
	// ownedTerm is the term in which this server has applied all entries before its own.
	ownedTerm atomic.Uint64
	elections atomic.Uint64
	// moved is the last term in which this server began to hand ownership on.
	moved      atomic.Uint64
	removals   atomic.Int32
	failed     chan error
	turn       broadcast
	stop       chan struct{}
	background sync.WaitGroup
	closeOnce  sync.Once
	closed     error
}

// Exists reports whether the server of a storage is a member of a cluster.
func Exists(s Storage) (bool, error) {
	m, err := openMarks(s)
	if err != nil {
		return false, err
	}
	exists, err := raft.HasExistingState(s, s, m)
	if err != nil {
		return false, fmt.Errorf("cluster: %w", err)
	}
	return exists, nil
}

// Found begins a log whose only member is the founder. The log begins after an index, which stands for the founder's
// state. So every other member must begin with a checkpoint of the founder's state.
func Found(s Storage, self Member, after uint64) error {
	m, err := openMarks(s)
	if err != nil {
		return err
	}
	c := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(self.ID), Address: raft.ServerAddress(self.Address)}}}
	index := after + 1
	return m.put(newMark(index, 1, c, index, index))
}

// Open continues the log of a storage. A server without a log waits until a member adds it.
func Open(o Options) (*Log, error) {
	marks, err := openMarks(o.Storage)
	if err != nil {
		return nil, err
	}
	logger := newLogger(o.Logger)
	l := &Log{o: o, log: o.Logger, layer: newLayer(o.Stream, o.Group, o.Self.ID), gate: newGate(), failed: make(chan error, 1), stop: make(chan struct{}), begun: make(chan struct{})}
	if l.tracked, err = track(o.Storage, l.fail); err != nil {
		return nil, err
	}
	l.machine = &machine{o: o, marks: marks, report: l.fail}
	l.machine.applied.Store(marks.state())
	l.freshness = &freshness{applied: l.machine.applied.Load, tail: l.tracked}
	if l.lease = leaseTimeout; o.Calm {
		l.lease = calmLease
	}
	l.contacts.followers = map[raft.ServerID]*contact{}
	l.transport = newTransport(o.Self.Address, l.layer, logger, l.admitted, func(term uint64, m message) {
		l.freshness.heard(o.Now(), term, m)
	})
	l.transport.now, l.transport.tell, l.transport.answered = o.Now, l.tell, l.answered
	if o.Calm {
		l.transport.quiet = &quiet{followers: map[raft.ServerID]*acknowledged{}, tracked: l.tracked, stop: l.stop}
	}
	if err := l.begin(logger); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: open the log: %w", err), l.transport.Close())
	}
	close(l.begun)
	l.tracked.opened.Store(true)
	l.background.Go(l.elect)
	l.background.Go(l.watch)
	l.background.Go(l.trim)
	return l, nil
}

// begin starts raft. It turns raft's panic over an unreadable log into an error.
func (l *Log) begin(logger hclog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raft: %v", p)
		}
	}()
	logs, err := raft.NewLogCache(cachedEntries, l.tracked)
	if err != nil {
		return err
	}
	l.raft, err = raft.NewRaft(l.config(logger), l.machine, logs, l.tracked, l.machine.marks, l.transport)
	return err
}

// ErrNotAdmitted says that the log of a server does not have the server as a member. A server that has lost its directory has
// also lost its votes and the entries that it acknowledged. So the server must not vote before the members have added it
// by its new id. The library grants votes while its configuration is empty.
var ErrNotAdmitted = errors.New("cluster: this server does not vote, because its log does not have it as a member")

func (l *Log) admitted() error {
	select {
	case <-l.begun:
	default:
		return ErrNotAdmitted // The server has not read its log yet. The candidate asks again.
	}
	if !slices.ContainsFunc(l.Members(), func(m Member) bool { return m.ID == l.o.Self.ID }) {
		return ErrNotAdmitted
	}
	return nil
}

func (l *Log) fail(err error) {
	select {
	case l.failed <- err:
	default:
	}
}

// Failed delivers at most one error. After it the process must open the log again.
func (l *Log) Failed() <-chan error { return l.failed }

// Propose appends an entry, and gives one of three answers. Nil: the entry is committed, and this server has applied
// it. ErrNotOwner of package storage: the entry is not in the log, and never will be. Any other error: the entry may
// or may not be in the log. If this server owns the log after it, this server has applied the entry or
// never will.
func (l *Log) Propose(ctx context.Context, entry []byte) error {
	if err := l.gate.enter(ctx); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrNotOwner, err)
	}
	f := l.raft.Apply(entry, enqueueTimeout)
	err := l.await(ctx, l.gate.leave, f)
	switch {
	case err == nil:
		if failed, ok := f.Response().(error); ok {
			return fmt.Errorf("%w: %w", ErrNotKnown, failed)
		}
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", storage.ErrNotOwner, err)
	}
	return fmt.Errorf("%w: %w", ErrNotKnown, err)
}

// await waits for the answer of raft, or until ctx ends. It calls done after raft has answered, even if ctx has ended
// before.
func (l *Log) await(ctx context.Context, done func(), f raft.Future) error {
	answer := make(chan error, 1)
	go func() { // The gate joins it.
		answer <- f.Error()
		done()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.stop:
		return ErrClosed
	}
}

func (l *Log) change(ctx context.Context, f raft.Future) error {
	if !l.gate.enterOther() {
		return ErrClosed
	}
	err := l.await(ctx, l.gate.leaveOther, f)
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", storage.ErrNotOwner, err)
	case errors.Is(err, raft.ErrLeadershipLost):
		return fmt.Errorf("%w: %w", ErrNotKnown, err)
	case err != nil:
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Add makes a server a member, or gives a member a new address. Only the owner adds.
func (l *Log) Add(ctx context.Context, m Member) error {
	id, address := raft.ServerID(m.ID), raft.ServerAddress(m.Address)
	if m.Voter {
		return l.change(ctx, l.raft.AddVoter(id, address, 0, enqueueTimeout))
	}
	return l.change(ctx, l.raft.AddNonvoter(id, address, 0, enqueueTimeout))
}

// Remove removes a member. Only the owner removes.
func (l *Log) Remove(ctx context.Context, id string) error {
	l.removals.Add(1)
	return l.change(ctx, removal{l.raft.RemoveServer(raft.ServerID(id), 0, enqueueTimeout), l})
}

// removal counts a removal until raft has answered.
type removal struct {
	raft.Future
	log *Log
}

// Error implements raft.Future. It is called once.
func (r removal) Error() error {
	defer r.log.removals.Add(-1)
	return r.Future.Error()
}

// Knows is false only if this server owns the log and the members without a server are committed. Raft returns the
// newest members even if they are not committed, and another owner may never have them. An owner has committed all
// members from before its election.
func (l *Log) Knows(id string) bool {
	return !l.Owns() || l.removals.Load() > 0 || slices.ContainsFunc(l.Members(), func(m Member) bool { return m.ID == id })
}

// Barrier returns after this server has applied all earlier proposals. Only the owner can call it.
func (l *Log) Barrier(ctx context.Context) error {
	return l.change(ctx, l.raft.Barrier(enqueueTimeout))
}

// Move hands ownership to a voter. It first waits for the answers to proposals in flight. New proposals wait until
// Move returns.
func (l *Log) Move(ctx context.Context, to Member) error {
	err := l.gate.proposals.Acquire(ctx, allCalls)
	if err != nil {
		return fmt.Errorf("cluster: hand ownership on: %w", err)
	}
	defer l.gate.proposals.Release(allCalls)
	if !l.Owns() {
		return storage.ErrNotOwner
	}
	l.moved.Store(l.ownedTerm.Load())
	for range transferAttempts {
		err = l.await(ctx, func() {}, l.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address)))
		if err == nil || context.Cause(ctx) != nil || !l.Owns() {
			break
		}
	}
	if err != nil && l.Owns() {
		return fmt.Errorf("%w: %w", ErrNoSuccessor, err)
	}
	return nil
}

// Owns reports whether this server owns the log: it leads, and has applied all entries of earlier owners. A nil log has
// no owner.
func (l *Log) Owns() bool {
	return l != nil && l.raft.State() == raft.Leader && l.ownedTerm.Load() == l.raft.CurrentTerm() && l.machine.failed.Load() == nil
}

// Held returns why this server applies no further entry although its log goes on: a newer program wrote the next entry.
// It is nil otherwise.
func (l *Log) Held() error {
	if l == nil {
		return nil
	}
	return l.machine.held()
}

// Owner returns the owner that this server knows. A nil log knows none.
func (l *Log) Owner() (Member, bool) {
	if l == nil {
		return Member{}, false
	}
	address, id := l.raft.LeaderWithID()
	if id == "" || (string(id) == l.o.Self.ID && !l.Owns()) {
		return Member{}, false
	}
	return Member{ID: string(id), Address: string(address), Voter: true}, true
}

// Turned returns a channel that closes when this server learns of another owner, or of none.
func (l *Log) Turned() <-chan struct{} { return l.turn.wait() }

// Members returns the members that this server knows.
func (l *Log) Members() []Member { return membersOf(l.raft.GetConfiguration().Configuration()) }

func membersOf(c raft.Configuration) []Member {
	var out []Member
	for _, s := range c.Servers {
		out = append(out, Member{string(s.ID), string(s.Address), s.Suffrage == raft.Voter})
	}
	return out
}

// Unheard is the age of a state that no owner has confirmed since the log was opened.
const Unheard = time.Duration(math.MaxInt64)

// Age bounds the age of the state of this server: the state has all commands that were committed before now - Age.
func (l *Log) Age() time.Duration {
	if l == nil {
		return Unheard
	}
	if l.Owns() {
		l.renew(l.ownedTerm.Load()) // The only voter hears nobody.
	}
	now := l.o.Now()
	if at, owns := l.reach(now); owns {
		return max(now.Sub(at), 0)
	}
	return l.freshness.age(now)
}

// Status is what a server knows of the log.
//
//	Applied <= Committed <= Last, on one server
type Status struct {
	Term, Last, Committed, Applied uint64
	// Elections counts how often this server became the owner.
	Elections uint64
}

// Status returns the state of the log on this server.
func (l *Log) Status() Status {
	return Status{l.raft.CurrentTerm(), l.raft.LastIndex(), l.raft.CommitIndex(), l.Applied(), l.elections.Load()}
}

// Applied returns the index of the last entry that this server has applied.
func (l *Log) Applied() uint64 { return l.machine.applied.Load() }

// Mark makes the state durable, and cuts the log. The log also calls Mark by itself, as Marks says.
func (l *Log) Mark() error {
	if err := l.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("cluster: make a mark: %w", err)
	}
	return nil
}

// Close ends the log. It waits proposalTimeout for the proposals in flight, and stepDownTimeout more after it has cut
// the connections to other servers. If the disk hangs, raft does not end, and Close fails with ErrStalled after
// shutdownTimeout. The storage must then stay open. A second Close returns the same error.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.gate.end(proposalTimeout)
		close(l.stop)
		l.layer.abort()
		// An owner without connections steps down, and raft answers its proposals. After Shutdown raft may never
		// answer a proposal that is committed but not applied.
		l.gate.end(stepDownTimeout)
		ended := make(chan error, 1)
		go func() { ended <- l.raft.Shutdown().Error() }()
		timer := time.NewTimer(shutdownTimeout)
		defer timer.Stop()
		select {
		case l.closed = <-ended:
		case <-timer.C:
			l.closed = ErrStalled
		}
		if l.closed != nil {
			l.closed = fmt.Errorf("cluster: close the log: %w", l.closed)
		}
		l.background.Wait()
	})
	return l.closed
}
