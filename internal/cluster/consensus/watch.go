package consensus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/zap"
)

func (l *Log) elect() {
	for {
		select {
		case <-l.stop:
			return
		case leads := <-l.raft.LeaderCh():
			l.turn.wake()
			if leads {
				l.becomeOwner()
			}
		}
	}
}

// watch wakes goroutines that wait for a new owner, and fails the log if the owner's disk hangs.
func (l *Log) watch() {
	seen := make(chan raft.Observation, 1)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	l.raft.RegisterObserver(observer)
	defer l.raft.DeregisterObserver(observer)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var s stall
	attempt := 0
	for {
		select {
		case <-l.stop:
			return
		case <-seen:
			l.turn.wake()
		case <-ticker.C:
			if s.stalled(l.raft.State() == raft.Leader && len(l.otherVoters()) > 0, l.tracked.writes.Load()) {
				l.fail(ErrStalled)
			}
			if err := l.Held(); err != nil {
				l.handOver(err, attempt)
				attempt++
			}
		}
	}
}

func (l *Log) otherVoters() []Member {
	return slices.DeleteFunc(l.Members(), func(m Member) bool { return m.ID == l.o.Self.ID || !m.Voter })
}

// handOver hands leadership on, if this server leads and its machine is held. Each attempt is to another server, because
// others may be held too.
func (l *Log) handOver(held error, attempt int) {
	if attempt == 0 {
		l.log.Error("this server applies no further change: start a newer version", zap.Error(held))
	}
	others := l.otherVoters()
	if l.raft.State() != raft.Leader || len(others) == 0 {
		return
	}
	to := others[attempt%len(others)]
	if err := l.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address)).Error(); err != nil {
		l.log.Warn("this server leads, and another server does not take over", zap.String("address", to.Address), zap.Error(err))
	}
}

// becomeOwner makes this server the owner once it leads and has applied the entries of previous owners.
func (l *Log) becomeOwner() {
	term, waited := l.raft.CurrentTerm(), time.Duration(0)
	for {
		began := l.o.Now()
		err := l.Barrier(context.Background())
		if err == nil {
			break
		}
		if l.raft.State() != raft.Leader || l.raft.CurrentTerm() != term {
			l.log.Info("no owner: leadership ended at once", zap.Uint64("term", term), zap.Error(err))
			return
		}
		// The disk may be slow. After a transfer to a server that did not answer, the library may reject all further proposals.
		// A try may be as long as the process was suspended, and counts enqueueTimeout at most.
		if waited += ownRetryInterval + min(l.o.Now().Sub(began), enqueueTimeout); waited > transferTimeout {
			l.fail(fmt.Errorf("cluster: this server leads but cannot own the models: %w", err))
			return
		}
		select {
		case <-time.After(ownRetryInterval):
		case <-l.stop:
			return
		}
	}
	l.ownedTerm.Store(term)
	if !l.Owns() {
		return
	}

	l.elections.Add(1)
	l.log.Info("this server owns the models", zap.Uint64("term", term))
	l.turn.wake()
}

// stall detects that a write of the owner's log does not return. A proposal that waits for another server is no stall: a
// leader without a majority steps down. The only voter waits for its disk, because nobody else can own the log.
type stall struct {
	// looks counts the calls of stalled during a write. A clock would also count the time in which the process was suspended.
	looks  int
	writes uint64
}

func (s *stall) stalled(leads bool, writes uint64) bool {
	if !leads || writes%2 == 0 || writes != s.writes {
		s.looks, s.writes = 0, writes
		return false
	}
	s.looks++
	return s.looks >= int(stallTimeout/watchInterval)
}

func transferTime(bytes int) time.Duration {
	return time.Duration(bytes) * (time.Second / minRate)
}
