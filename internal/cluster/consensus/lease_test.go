package consensus_test

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"

	"hindsight/internal/cluster/consensus"
)

// TestConfirm: an owner whose lease ran out asks a majority, and a server that another one has replaced, or that
// reaches no majority, does not confirm.
func TestConfirm(t *testing.T) {
	servers := found(t)
	for n, s := range servers {
		got := s.Confirm(t.Context())
		assert.True(t, got == (n == 0) || got == s.Owns(), "server %d confirms: %v", n, got)
	}
	first := owner(t, servers...)
	first.ahead.Add(int64(time.Hour)) // As after a suspension.
	assert.True(t, first.Confirm(t.Context()) || !first.Owns(), "the owner does not confirm after its lease")
	next := servers[1]
	if first == next {
		next = servers[2]
	}
	eventually(t, "another server owns", func() bool {
		_ = owner(t, servers...).Move(t.Context(), next.self)
		return next.Owns()
	})
	for _, s := range servers {
		assert.True(t, s == next || !s.Confirm(t.Context()) || s.Owns(), "%s confirms after %s has replaced it", s.self.ID, next.self.ID)
	}

	last := owner(t, servers...)
	for _, s := range servers {
		if s != last {
			s.close(t)
		}
	}
	last.ahead.Add(int64(time.Hour))
	assert.False(t, last.Confirm(t.Context()), "a server confirms without a majority")
	age := last.Age()
	assert.True(t, age >= time.Hour, "the state of a server without a majority is %v old, want an hour", age)
}

// TestAge: a follower dates a request of the owner by its time at the owner, whenever the request arrives, and however
// the clocks differ.
func TestAge(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type request struct {
		at             time.Duration // When it arrives.
		term           uint64
		number, answer uint64
		after          time.Duration
		commit         uint64
	}
	first := request{0, 1, 1, 0, 0, 0}
	for _, c := range []struct {
		name     string
		requests []request
		applied  uint64
		at, want time.Duration
	}{
		{"none", nil, 9, 0, consensus.Unheard},
		{"the first of a term", []request{first}, 9, 0, consensus.Unheard},
		{"in time", []request{first, {20 * ms, 1, 2, 1, 15 * ms, 9}}, 9, 20 * ms, 5 * ms},
		{"in a buffer for a second", []request{first, {time.Second, 1, 2, 1, 15 * ms, 9}}, 9, time.Second, 985 * ms},
		{"a burst after a second", []request{
			{time.Second, 1, 1, 0, 0, 0}, {time.Second, 1, 2, 0, 0, 9}, {time.Second, 1, 3, 0, 0, 9},
		}, 9, time.Second, consensus.Unheard},
		{"an owner that was suspended", []request{first, {time.Second, 1, 2, 1, -10 * ms, 9}}, 9, time.Second, 1010 * ms},
		{"an answer that this server does not know", []request{first, {20 * ms, 1, 3, 2, 15 * ms, 9}}, 9, 20 * ms, consensus.Unheard},
		{"the next term", []request{first, {20 * ms, 2, 2, 1, 15 * ms, 9}}, 9, 20 * ms, consensus.Unheard},
		{"the previous term", []request{{0, 2, 1, 0, 0, 0}, {20 * ms, 1, 2, 1, 15 * ms, 9}}, 9, 20 * ms, consensus.Unheard},
		{"out of order", []request{first, {20 * ms, 1, 3, 1, 15 * ms, 9}, {25 * ms, 1, 2, 1, 5 * ms, 9}}, 9, 30 * ms, 15 * ms},
		{"a state that lags", []request{first, {20 * ms, 1, 2, 1, 15 * ms, 9}, {40 * ms, 1, 3, 2, 15 * ms, 10}}, 9, 60 * ms, 45 * ms},
		{"a date in the future", []request{first, {20 * ms, 1, 2, 1, 25 * ms, 9}}, 9, 20 * ms, 0},
	} {
		begin := time.Unix(1000, 0)
		f := consensus.NewFreshness(c.applied)
		for _, r := range c.requests {
			f.Heard(begin.Add(r.at), r.term, r.number, r.answer, r.after, r.commit)
		}
		assert.Equal(t, c.want, f.Age(begin.Add(c.at)), "%s old", c.name)
	}
}

// TestContacts: an owner knows that it was the owner when it sent the newest request that a majority has answered. The
// arrival of an answer says nothing, because a suspended server has answers in its buffers.
func TestContacts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	const now = 3 * time.Second
	all := []raft.ServerID{"self", "a", "b"}
	for _, c := range []struct {
		name   string
		voters []raft.ServerID
		term   uint64
		// answered is when the last answered request was sent to each follower, in term 4.
		answered map[raft.ServerID]time.Duration
		want     time.Duration // Negative: never.
	}{
		{"alone", all[:1], 4, nil, now},
		{"no answer", all, 4, nil, -1},
		{"one of two", all[:2], 4, map[raft.ServerID]time.Duration{"a": 7}, 7},
		{"one of three", all, 4, map[raft.ServerID]time.Duration{"a": 7}, 7},
		{"two of three", all, 4, map[raft.ServerID]time.Duration{"a": 7, "b": 9}, 9},
		{"another term", all, 5, map[raft.ServerID]time.Duration{"a": 7, "b": 9}, -1},
		{"not a voter", all, 4, map[raft.ServerID]time.Duration{"c": 9}, -1},
		{"two of five", append([]raft.ServerID{"c", "d"}, all...), 4, map[raft.ServerID]time.Duration{"a": 7, "b": 9}, 7},
		{"the leader leaves", all[1:], 4, map[raft.ServerID]time.Duration{"a": 7, "b": 9}, 7},
	} {
		contacts := consensus.NewContacts()
		for id, sent := range c.answered {
			contacts.Answer(begin.Add(now), id, 4, begin.Add(sent))
		}
		want := begin.Add(c.want)
		if c.want < 0 {
			want = time.Time{}
		}
		got := contacts.Confirmed(begin.Add(now), c.voters, "self", c.term)
		assert.True(t, got.Equal(want), "%s: confirmed at %v, want %v", c.name, got, want)
	}
}
