// Package logtest is a replicated log within one process, for tests. Servers apply its entries, one server is the
// owner, and a test can make proposals fail.
package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hindsight/internal/engine/storage"
)

// ErrLost is the error of a proposal whose outcome is unknown.
var ErrLost = errors.New("logtest: the connection was lost")

// Fault is what happens to a proposal.
type Fault int

// The faults.
const (
	None Fault = iota
	// Rejected: the entry is not in the log, and the proposer gets ErrNotOwner.
	Rejected
	// Dropped: the entry is not in the log, and the proposer gets ErrLost.
	Dropped
	// Applied: the proposer applies the entry, and then gets ErrLost.
	Applied
	// Deposed: the entry is in the log, the proposer gets ErrLost, and the next server is the owner.
	Deposed
)

// Log is an ordered log.
type Log struct {
	mu struct {
		sync.Mutex
		entries [][]byte
		// applied counts the entries that each server has applied.
		applied []uint64
		owner   int
		// barrier is the number of entries that the owner must have applied before Owner returns true.
		barrier uint64
		fault   func() Fault
		// changed closes when one of the fields above changes.
		changed chan struct{}
	}
}

// New returns an empty log of several servers. The first server is the owner.
func New(servers int) *Log {
	l := &Log{}
	l.mu.applied, l.mu.changed = make([]uint64, servers), make(chan struct{})
	return l
}

// notify wakes all goroutines that wait for changed. The caller holds the lock.
func (l *Log) notify() {
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

// SetFault sets the function that chooses the fault of each proposal, nil for none.
func (l *Log) SetFault(f func() Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fault = f
}

// Own makes a server the owner. Owner returns true after the server has applied the whole log.
func (l *Log) Own(server int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setOwner(server)
}

func (l *Log) setOwner(server int) {
	l.mu.owner, l.mu.barrier = server, uint64(len(l.mu.entries))
	l.notify()
}

// Entries returns the entries so far. Entry n has the index n+1.
func (l *Log) Entries() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.entries)
}

// Server is the log as one server sees it.
type Server struct {
	log *Log
	n   int
}

// Server returns a server of the log.
func (l *Log) Server(n int) Server { return Server{l, n} }

// Owner reports whether the server is the owner.
func (s Server) Owner() bool {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.owns()
}

func (s Server) owns() bool {
	return s.log.mu.owner == s.n && s.log.mu.applied[s.n] >= s.log.mu.barrier
}

// Propose implements replicated.Log.
func (s Server) Propose(ctx context.Context, entry []byte) error {
	index, fault, err := s.append(entry)
	if err != nil || fault == Deposed {
		return errors.Join(err, lostBy(fault))
	}
	if err := s.WaitApplied(ctx, index); err != nil {
		return err
	}
	return lostBy(fault)
}

func lostBy(f Fault) error {
	if f == Applied || f == Deposed {
		return ErrLost
	}
	return nil
}

func (s Server) append(entry []byte) (index uint64, fault Fault, err error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.owns() {
		return 0, None, storage.ErrNotOwner
	}
	if l.mu.fault != nil {
		fault = l.mu.fault()
	}
	switch fault {
	case Rejected:
		return 0, None, storage.ErrNotOwner
	case Dropped:
		return 0, None, ErrLost
	case None, Applied, Deposed:
	}
	l.mu.entries = append(l.mu.entries, entry)
	l.notify()
	if fault == Deposed {
		l.setOwner((s.n + 1) % len(l.mu.applied))
	}
	return uint64(len(l.mu.entries)), fault, nil
}

// WaitApplied waits until the server has applied the entry of an index.
func (s Server) WaitApplied(ctx context.Context, index uint64) error {
	for {
		s.log.mu.Lock()
		done, changed := s.log.mu.applied[s.n] >= index, s.log.mu.changed
		s.log.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitAll waits until the server has applied the whole log.
func (s Server) WaitAll(ctx context.Context) error {
	return s.WaitApplied(ctx, uint64(len(s.log.Entries())))
}

// Applied returns the index of the last entry that the server has applied.
func (s Server) Applied() uint64 {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.mu.applied[s.n]
}

// Follow applies the entries after an index until the caller calls stop, or apply fails. The function stop returns
// the error of apply.
func (s Server) Follow(after uint64, apply func(index uint64, entry []byte) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	s.reach(after)
	ended := make(chan error, 1)
	go func() { ended <- s.follow(ctx, after, apply) }()
	return func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
}

func (s Server) reach(index uint64) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.mu.applied[s.n] = index
	s.log.notify()
}

func (s Server) follow(ctx context.Context, index uint64, apply func(uint64, []byte) error) error {
	for {
		s.log.mu.Lock()
		entries, changed := s.log.mu.entries[index:], s.log.mu.changed
		s.log.mu.Unlock()
		for _, entry := range entries {
			select {
			case <-ctx.Done():
				return nil
			default:
			}
			index++
			if err := apply(index, entry); err != nil {
				return fmt.Errorf("logtest: server %d: %w", s.n, err)
			}
			s.reach(index)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
