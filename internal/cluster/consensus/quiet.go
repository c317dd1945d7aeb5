package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// A follower gets a repeated message again after repeatAfter, because it may have started again.
	repeatAfter = 2 * time.Second
	// A repeated message needs no answer of a follower that has answered within answeredWithin. With the lease, an owner
	// without a majority steps down before the others elect:
	//
	//	calmLease + answeredWithin < calmElectionTimeout
	answeredWithin = 250 * time.Millisecond
	// A repeated message of a log at rest waits for the next entry, or for restTime.
	restTime = time.Second
	// The heartbeats of all logs start together, every beat, so that a server at rest wakes less often.
	beat = 50 * time.Millisecond
)

// quiet answers the messages of a log at rest that tell a follower nothing new. The library sends such a message every
// calmCommitTimeout, beside the heartbeats.
type quiet struct {
	tracked   *trackedStorage
	stop      <-chan struct{}
	mu        sync.Mutex
	followers map[raft.ServerID]*acknowledged
}

type acknowledged struct {
	request  raft.AppendEntriesRequest
	response raft.AppendEntriesResponse
	// at is the time of that answer, and heard of the last answer to any message.
	at, heard time.Time
}

// isHeartbeat reports whether a request is a heartbeat, which has neither entries nor a position.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return len(r.Entries) == 0 && r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && r.LeaderCommitIndex == 0
}

// answer answers a request, if the follower has acknowledged the same request.
func (q *quiet) answer(now time.Time, to raft.ServerID, r *raft.AppendEntriesRequest, out *raft.AppendEntriesResponse) bool {
	if len(r.Entries) > 0 || isHeartbeat(r) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.followers[to]
	if t == nil || now.Sub(t.at) > repeatAfter || now.Sub(t.heard) > answeredWithin {
		return false
	}
	if r.Term != t.request.Term || r.PrevLogEntry != t.request.PrevLogEntry || r.PrevLogTerm != t.request.PrevLogTerm ||
		r.LeaderCommitIndex != t.request.LeaderCommitIndex {
		return false
	}
	*out = t.response
	return true
}

func (q *quiet) heard(now time.Time, to raft.ServerID, r *raft.AppendEntriesRequest, out *raft.AppendEntriesResponse, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil || !out.Success {
		delete(q.followers, to)
		return
	}
	t := q.followers[to]
	switch {
	case isHeartbeat(r):
		if t != nil {
			t.heard = now
		}
		return
	case t == nil:
		t = &acknowledged{}
		q.followers[to] = t
	}
	t.heard = now
	t.request, t.response, t.at = raft.AppendEntriesRequest{}, *out, now
	if len(r.Entries) == 0 {
		t.request = *r
	}
}

// rest waits for the next entry after a request, at most restTime. It does not wait if the request does not tell that
// all entries are committed.
func (q *quiet) rest(r *raft.AppendEntriesRequest) {
	appended := q.tracked.appended.wait()
	if last, err := q.tracked.LastIndex(); err != nil || r.PrevLogEntry != last || r.LeaderCommitIndex != last {
		return
	}
	q.pause(restTime, appended)
}

func (q *quiet) pause(d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-q.stop:
	}
}

func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, r *raft.AppendEntriesRequest, out *raft.AppendEntriesResponse) error {
	if t.quiet == nil {
		return t.send(id, to, r, out)
	}
	if isHeartbeat(r) {
		now := t.now()
		t.quiet.pause(now.Truncate(beat).Add(beat).Sub(now), nil)
	} else if t.quiet.answer(t.now(), id, r, out) {
		t.quiet.rest(r)
		if t.quiet.answer(t.now(), id, r, out) {
			return nil
		}
	}
	err := t.send(id, to, r, out)
	t.quiet.heard(t.now(), id, r, out, err)
	return err
}
