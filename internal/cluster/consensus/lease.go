package consensus

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// message is what the owner adds to an AppendEntries request, so that the follower can date its state. A clock is read
// by its own server alone: the servers exchange numbers of messages, and the time between two events at one server.
type message struct {
	// number counts the requests of a term to the follower. The first is 1.
	number uint64
	// answered is the number of the newest request that the follower has answered, 0 if the owner has nothing to date.
	// The follower received that request before the owner received the answer.
	answered uint64
	// after is the time from the answer until the date of the request: every command that was committed before the date
	// has an index <= commit. It is negative if the date is earlier than the answer.
	after  time.Duration
	commit uint64
}

const messageBytes = 4 * 8

func (m *message) encode() []byte {
	out := make([]byte, 0, messageBytes)
	for _, v := range []uint64{m.number, m.answered, uint64(m.after), m.commit} {
		out = binary.BigEndian.AppendUint64(out, v)
	}
	return out
}

func decodeMessage(data []byte) (m message, ok bool) {
	if len(data) != messageBytes {
		return m, false
	}
	field := func(n int) uint64 { return binary.BigEndian.Uint64(data[8*n:]) }
	return message{field(0), field(1), time.Duration(field(2)), field(3)}, true
}

type contacts struct {
	mu        sync.Mutex
	followers map[raft.ServerID]*contact
}

// contact is the requests of one term to one follower.
//
//	answered <= sent
type contact struct {
	term, sent, answered uint64
	// begun is when the newest answered request was sent, and at when its answer arrived.
	begun, at time.Time
}

// next returns the number of the next request of a term, and the newest answered request. It returns a zero contact
// if the leader has sent a request of a later term.
func (c *contacts) next(to raft.ServerID, term uint64) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followers[to]
	if f == nil || f.term < term {
		f = &contact{term: term}
		c.followers[to] = f
	}
	if f.term > term {
		return contact{}
	}
	f.sent++
	return *f
}

func (c *contacts) answer(now time.Time, to raft.ServerID, term, number uint64, begun time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.followers[to]; f != nil && f.term == term && number > f.answered {
		f.answered, f.begun, f.at = number, begun, now
	}
}

// confirmed returns the latest time at which a majority of the voters had no later term: each has answered a request of
// the term that was sent then or later. It is zero if there is none. The leader itself has answered now.
func (c *contacts) confirmed(now time.Time, voters []raft.ServerID, self raft.ServerID, term uint64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := make([]time.Time, 0, len(voters))
	for _, id := range voters {
		at := time.Time{}
		if id == self {
			at = now
		} else if f := c.followers[id]; f != nil && f.term == term {
			at = f.begun
		}
		times = append(times, at)
	}
	if len(times) == 0 {
		return time.Time{}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times[len(times)/2]
}

func (l *Log) tell(to raft.ServerID, term uint64) message {
	c := l.contacts.next(to, term)
	m := message{number: c.sent}
	// Raft sends requests only after begin has set l.raft, in goroutines that NewRaft starts.
	select {
	case <-l.begun:
	case <-l.stop:
		return m
	}
	if date, owns := l.reach(l.o.Now()); owns && c.answered > 0 {
		m.answered, m.after = c.answered, date.Sub(c.at)
		m.commit = l.raft.CommitIndex() // It is read after the date.
	}
	return m
}

func (l *Log) answered(to raft.ServerID, term, number uint64, begun time.Time) {
	l.contacts.answer(l.o.Now(), to, term, number, begun)
	select {
	case <-l.begun:
		l.renew(term)
	default:
	}
}

func (l *Log) renew(term uint64) {
	var voters []raft.ServerID
	for _, m := range l.Members() {
		if m.Voter {
			voters = append(voters, raft.ServerID(m.ID))
		}
	}
	at := l.contacts.confirmed(l.o.Now(), voters, raft.ServerID(l.o.Self.ID), term)
	if !at.IsZero() && l.Owns() && l.ownedTerm.Load() == term {
		l.freshness.confirm(term, at)
	}
}

// reach returns a time before which this server has every committed command. That is now while the lease lasts: a
// majority has had no later term within the lease, and elects no other owner before the election timeout. The lease
// says nothing after this server has handed ownership on, because the next owner is then elected at once. The second
// result is false if this server does not own the log.
func (l *Log) reach(now time.Time) (at time.Time, owns bool) {
	term := l.ownedTerm.Load()
	at, owns = l.freshness.confirmed(term)
	if !owns || !l.Owns() {
		return time.Time{}, false
	}
	if now.Sub(at) < l.lease && l.moved.Load() != term {
		return now, true
	}
	return at, true
}

// Confirm reports whether this server owns the log, and no other server has owned it before the call. While the lease lasts,
// Confirm asks no other server. Otherwise a server that was suspended learns here that it has lost ownership.
func (l *Log) Confirm(ctx context.Context) bool {
	if l == nil {
		return false
	}
	begun := l.o.Now()
	for ctx.Err() == nil && l.Owns() {
		if at, owns := l.reach(l.o.Now()); owns && !at.Before(begun) {
			return true
		}
		if !l.verify(ctx) {
			return false
		}
		// An answer in the buffers of a suspended server satisfies the library. It does not extend the lease, and the
		// server asks again.
		l.renew(l.ownedTerm.Load())
	}
	return false
}

// verification is a question to the followers, whether this server still leads.
type verification struct {
	done  chan struct{}
	leads bool
}

// verify asks the followers. Concurrent callers share the question.
func (l *Log) verify(ctx context.Context) bool {
	l.verifying.Lock()
	v := l.verifying.current
	if v == nil && !l.gate.enterOther() {
		l.verifying.Unlock()
		return false
	}
	if v == nil {
		v = &verification{done: make(chan struct{})}
		l.verifying.current = v
		go func() { // The gate joins it.
			defer l.gate.leaveOther()
			v.leads = l.raft.VerifyLeader().Error() == nil
			l.verifying.Lock()
			l.verifying.current = nil
			l.verifying.Unlock()
			close(v.done)
		}()
	}
	l.verifying.Unlock()
	select {
	case <-v.done:
		return v.leads
	case <-ctx.Done():
	case <-l.stop:
	}
	return false
}
