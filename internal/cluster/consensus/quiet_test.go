package consensus_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/consensus"
)

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
