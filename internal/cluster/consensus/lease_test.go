package consensus_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/consensus"
)

// TestConfirm: an owner whose lease ran out asks a majority, and a server that another one has replaced, or that
// reaches no majority, does not confirm.
func TestConfirm(t *testing.T) {
	t.Parallel()
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

// TestQuiet: only a message that a follower has acknowledged, and that has no entries, is answered without the follower,
// and only while the follower answers heartbeats.
func TestQuiet(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	said := func(term, index, commit uint64) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: term, PrevLogEntry: index, PrevLogTerm: term, LeaderCommitIndex: commit}
	}
	entry, heartbeat := said(3, 9, 9), &raft.AppendEntriesRequest{Term: 3}
	entry.Entries = []*raft.Log{{Index: 10}}
	for _, c := range []struct {
		name string
		// The follower acknowledges said(3, 9, 9) at the beginning, and heartbeats at these times.
		beats []time.Duration
		at    time.Duration
		to    raft.ServerID
		r     *raft.AppendEntriesRequest
		want  bool
	}{
		{"the same", nil, consensus.AnsweredWithin, "a", said(3, 9, 9), true},
		{"another follower", nil, 0, "b", said(3, 9, 9), false},
		{"another term", nil, 0, "a", said(4, 9, 9), false},
		{"another end of the log", nil, 0, "a", said(3, 10, 9), false},
		{"another commit index", nil, 0, "a", said(3, 9, 8), false},
		{"entries", nil, 0, "a", entry, false},
		{"a heartbeat", nil, 0, "a", heartbeat, false},
		{"a silent follower", nil, consensus.AnsweredWithin + 1, "a", said(3, 9, 9), false},
		{"a follower that answers heartbeats", []time.Duration{consensus.AnsweredWithin}, 2 * consensus.AnsweredWithin, "a", said(3, 9, 9), true},
		{"long after", []time.Duration{consensus.RepeatAfter}, consensus.RepeatAfter + 1, "a", said(3, 9, 9), false},
	} {
		q := consensus.NewQuiet()
		q.Heard(begin, "a", said(3, 9, 9), nil)
		for _, at := range c.beats {
			q.Heard(begin.Add(at), "a", heartbeat, nil)
		}
		assert.Equal(t, c.want, q.Answer(begin.Add(c.at), c.to, c.r), "%s: answered", c.name)
	}

	q := consensus.NewQuiet()
	q.Heard(begin, "a", said(3, 9, 9), nil)
	q.Heard(begin, "a", entry, nil)
	assert.False(t, q.Answer(begin, "a", said(3, 9, 9)), "a follower with new entries has to hear the commit index again")
	q.Heard(begin, "a", said(3, 10, 9), nil)
	q.Heard(begin, "a", heartbeat, errors.New("the connection broke"))
	assert.False(t, q.Answer(begin, "a", said(3, 10, 9)), "a follower that has failed has to hear everything again")
	lease, election := consensus.CalmTimeouts()
	assert.True(t, lease+consensus.AnsweredWithin < election, "an owner without a majority may stay for %v, and the others elect after %v", lease+consensus.AnsweredWithin, election)
}

// TestRest: a repeated message waits for the next entry or the end of the log, at most restTime, and only if the
// follower knows that all entries are committed.
func TestRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		index, commit uint64
		// After half of restTime, the log gets entry 10, or ends.
		appends, ends bool
		want          time.Duration
	}{
		{"nothing happens", 9, 9, false, false, consensus.RestTime},
		{"an entry", 9, 9, true, false, consensus.RestTime / 2},
		{"the end", 9, 9, false, true, consensus.RestTime / 2},
		{"an entry is new already", 8, 8, false, false, 0},
		{"an entry is not committed", 9, 8, false, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, stop := consensus.NewQuiet(), make(chan struct{})
				err := q.Over(raft.NewInmemStore(), stop)
				err = errors.Join(err, q.StoreLog(&raft.Log{Index: 9}))
				require.NoError(t, err)
				var half sync.WaitGroup
				half.Go(func() {
					time.Sleep(consensus.RestTime / 2)
					if c.appends {
						err = q.StoreLog(&raft.Log{Index: 10})
					}
					if c.ends {
						close(stop)
					}
				})
				begin := time.Now()
				q.Rest(&raft.AppendEntriesRequest{PrevLogEntry: c.index, LeaderCommitIndex: c.commit})
				assert.Equal(t, c.want, time.Since(begin), "waited")
				half.Wait()
				assert.NoError(t, err)
			})
		})
	}
}

// slowRate is the rate of a slow link, in bytes a second.
const slowRate = 520 << 10

// slow rejects a request that takes longer on a link of slowRate than the request may take. It does not wait. A request begins
// with the first write after a read.
type slow struct {
	net.Conn
	limit time.Duration
	bytes int
}

func (c *slow) SetDeadline(t time.Time) error {
	c.limit = time.Until(t)
	return c.Conn.SetDeadline(t)
}

func (c *slow) Read(p []byte) (int, error) {
	c.bytes = 0
	return c.Conn.Read(p)
}

func (c *slow) Write(p []byte) (int, error) {
	c.bytes += len(p)
	if takes := time.Duration(c.bytes) * time.Second / slowRate; c.limit > 0 && takes > c.limit {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(p)
}

func TestALargeEntryPassesASlowLink(t *testing.T) {
	t.Parallel()
	servers := found(t, func(s *server) {
		s.calm = true
		s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &slow{Conn: c}, err
		}
	})
	propose(t, strings.Repeat("x", 3<<20), servers...)
	for _, s := range servers {
		select {
		case err := <-s.Failed():
			t.Errorf("%s failed: %v", s.self.ID, err)
		default:
		}
	}
}

func TestStall(t *testing.T) {
	for _, c := range []struct {
		name  string
		write bool
		leads bool
		ends  bool
		looks int
		want  bool
	}{
		{"no write, a proposal waits for others", false, true, false, 99, false},
		{"a short write", true, true, false, 4, false},
		{"a write hangs", true, true, false, 5, true},
		{"a follower's write", true, false, false, 99, false},
		{"the next write", true, true, true, 5, false},
	} {
		var s consensus.Stall
		if c.write {
			s.Step()
		}
		assert.False(t, s.Stalled(c.leads), "%s: stalled at once", c.name)
		if c.ends {
			s.Step()
			s.Step()
		}
		got := false
		for range c.looks {
			got = s.Stalled(c.leads)
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

func TestAbortEndsADialToAServerThatHangs(t *testing.T) {
	t.Parallel()
	stream, err := consensus.Listen(listen(t, "127.0.0.1:0"), nil, func(error) {})
	require.NoError(t, err)
	hung := listen(t, "127.0.0.1:0")
	dial, abort := consensus.NewLayer(stream)
	ended := make(chan error, 1)
	go func() { ended <- dial("a", hung.Addr().String(), time.Hour) }()
	conn, err := hung.Accept()
	require.NoError(t, err)
	abort()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(patience):
		t.Error("the dial goes on")
	}
	require.ErrorIs(t, dial("a", hung.Addr().String(), time.Hour), context.Canceled)
	require.NoError(t, errors.Join(conn.Close(), hung.Close(), stream.Close()))
}
