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

// NewLayer returns how raft dials the member of an id at an address, and what ends that.
func NewLayer(s *Stream) (dial func(id, address string, timeout time.Duration) error, abort func()) {
	l := newLayer(s, 0, "self")
	return func(id, address string, timeout time.Duration) error {
		_, err := l.Dial(target(raft.ServerID(id), raft.ServerAddress(address)), timeout)
		return err
	}, l.abort
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

// CalmTimeouts returns the lease and the least time until an election of a calm log.
func CalmTimeouts() (lease, election time.Duration) {
	return calmLease, calmElectionTimeout
}

// Stall is stall, over writes that the caller begins.
type Stall struct {
	stall
	count uint64
}

// Step begins a write, or ends it.
func (s *Stall) Step() { s.count++ }

func (s *Stall) Stalled(leads bool) bool { return s.stalled(leads, s.count) }

// Freshness is freshness of a state that has applied the log up to an index.
type Freshness struct{ freshness }

func NewFreshness(applied uint64) *Freshness {
	return &Freshness{freshness{applied: func() uint64 { return applied }, tail: &trackedStorage{Storage: raft.NewInmemStore()}}}
}

func (f *Freshness) Heard(now time.Time, term, number, answered uint64, after time.Duration, commit uint64) {
	f.heard(now, term, message{number, answered, after, commit})
}

func (f *Freshness) Age(now time.Time) time.Duration { return f.age(now) }

// Contacts is contacts.
type Contacts struct{ contacts }

func NewContacts() *Contacts {
	return &Contacts{contacts{followers: map[raft.ServerID]*contact{}}}
}

// Answer answers a request that was sent at the time begun.
func (c *Contacts) Answer(now time.Time, to raft.ServerID, term uint64, begun time.Time) {
	c.answer(now, to, term, c.next(to, term).sent, begun)
}

func (c *Contacts) Confirmed(now time.Time, voters []raft.ServerID, self raft.ServerID, term uint64) time.Time {
	return c.confirmed(now, voters, self, term)
}
