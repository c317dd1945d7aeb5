package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// The limits of Quiet.
const (
	RepeatAfter    = repeatAfter
	AnsweredWithin = answeredWithin
)

// Quiet is quiet.
type Quiet struct{ quiet }

func NewQuiet() *Quiet {
	return &Quiet{quiet{followers: map[raft.ServerID]*acknowledged{}}}
}

// RestTime is restTime.
const RestTime = restTime

// Over lets Rest see the entries that StoreLogs stores.
func (q *Quiet) Over(s Storage, stop <-chan struct{}) (err error) {
	q.tracked, err = track(s, func(error) {})
	q.stop = stop
	return err
}

func (q *Quiet) StoreLog(l *raft.Log) error { return q.tracked.StoreLog(l) }

func (q *Quiet) Rest(r *raft.AppendEntriesRequest) { q.rest(r) }

func (q *Quiet) Answer(now time.Time, to raft.ServerID, r *raft.AppendEntriesRequest) bool {
	return q.answer(now, to, r, new(raft.AppendEntriesResponse))
}

func (q *Quiet) Heard(now time.Time, to raft.ServerID, r *raft.AppendEntriesRequest, err error) {
	q.heard(now, to, r, &raft.AppendEntriesResponse{Success: err == nil}, err)
}

func (q *Quiet) Current(to raft.ServerID, term, commit uint64) bool {
	return q.current(to, term, commit)
}

// CalmTimeouts returns the lease and the least time until an election of a calm log.
func CalmTimeouts() (lease, election time.Duration) {
	return calmLease, calmElectionTimeout
}

// Stall is stall, over writes that the caller begins.
type Stall struct {
	stall
	write *write
}

// Begin begins a write. End ends it.
func (s *Stall) Begin(bytes int) { s.write = &write{bytes} }

func (s *Stall) End() { s.write = nil }

func (s *Stall) Stalled(now time.Time, leads bool) bool { return s.stalled(now, leads, s.write) }
