package cluster

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

// Status is the cluster as this server knows it.
type Status struct {
	Self Member
	// Owner is zero if this server knows no owner.
	Owner    Member
	Owns     bool
	Draining bool
	Members  []Member
	// Age is Unheard if no owner has confirmed the state.
	Age time.Duration
	Log consensus.Status
}

// Status returns the cluster as this server knows it. It does not wait.
func (n *Node) Status() Status {
	out := Status{Self: n.self, Draining: n.host.draining.Load(), Age: Unheard}
	l := n.consensus.Load()
	if l == nil {
		return out
	}
	out.Owner, _ = l.Owner()
	out.Owns, out.Members, out.Age, out.Log = l.Owns(), l.Members(), l.Age(), l.Status()
	for _, m := range out.Members {
		if m.ID == n.self.ID {
			out.Self.Voter = m.Voter
		}
	}
	return out
}

// MemberStatus is the status of a member as the member reports it.
type MemberStatus struct {
	Member
	Owner, Draining bool
	// Err is why the member does not answer. Then the fields after Err are zero.
	Err     error
	Applied uint64
	// Age is Unheard if the member does not know it.
	Age     time.Duration
	Version string
	// Writes is the newest format that the member writes.
	Writes uint32
	// Offset is how far the member's clock is ahead of this server's, give or take half a second.
	Offset time.Duration
}

// Members asks all members for their status. It takes at most a second. By the members of group 0 this server also gets
// to know the other groups.
func (n *Node) Members(ctx context.Context) []MemberStatus {
	s := n.Status()
	addresses := make([]string, len(s.Members))
	for k, m := range s.Members {
		addresses[k] = m.Address
	}
	out := make([]MemberStatus, len(s.Members))
	var answers []answer
	if n.number == 0 {
		answers = n.host.askAll(ctx, addresses)
	} else {
		answers = n.host.ask(ctx, n.number, addresses)
	}
	for k, a := range answers {
		m := MemberStatus{Member: s.Members[k], Owner: s.Members[k].ID == s.Owner.ID, Err: a.err}
		switch {
		case a.err != nil:
		case a.said.GetId() != m.ID:
			m.Err = fmt.Errorf("cluster: another server, %s, runs at %s", a.said.GetId(), m.Address)
		default:
			m.Offset = a.offset
			m.Applied, m.Draining, m.Version = a.said.GetApplied(), a.said.GetDraining(), a.said.GetVersion()
			m.Writes = a.said.GetWrites()
			if m.Age = Unheard; a.said.GetAgeMs() >= 0 {
				m.Age = time.Duration(a.said.GetAgeMs()) * time.Millisecond
			}
		}
		out[k] = m
	}
	return out
}

// Move hands the ownership to a voter, named by id or address. If to is empty, Move chooses the voter that has the
// most of the log. Changes wait meanwhile. On a server that is not the owner, Move fails with storage.ErrNotOwner.
func (n *Node) Move(ctx context.Context, to string) error {
	l := n.consensus.Load()
	if !l.Owns() {
		return fmt.Errorf("cluster: move the ownership: %w", storage.ErrNotOwner)
	}
	if to == "" {
		return n.handOn(ctx, l)
	}
	m, err := find(l.Members(), to)
	switch {
	case err != nil:
		return err
	case m.ID == n.self.ID:
		return nil
	case !m.Voter:
		return fmt.Errorf("%w: %s has no vote yet", ErrNoMember, to)
	}
	// Move rejects a server that does not answer, because all calls would wait for it.
	if _, err := n.host.hello(ctx, n.number, m.Address); err != nil {
		return fmt.Errorf("%w: %s", ErrNoSuccessor, err.Error()) // Without the status of err.
	}
	return l.Move(ctx, m)
}

// handOn hands the ownership to a voter that answers and is not drained. Of several it chooses the voter that has the
// most of the log.
func (n *Node) handOn(ctx context.Context, l *consensus.Log) error {
	var to MemberStatus
	for _, m := range n.Members(ctx) {
		if m.ID != n.self.ID && m.Voter && !m.Draining && m.Err == nil && (to.ID == "" || m.Applied > to.Applied) {
			to = m
		}
	}
	if to.ID == "" {
		return ErrNoSuccessor
	}
	return l.Move(ctx, to.Member)
}

func find(members []Member, which string) (Member, error) {
	for _, m := range members {
		if m.ID == which || m.Address == which {
			return m, nil
		}
	}
	return Member{}, fmt.Errorf("%w: %s", ErrNoMember, which)
}

// raise raises the format of the group to the newest that all members write. A member that does not answer may be an
// older program.
func (n *Node) raise(ctx context.Context) {
	n.joining.Lock() // A server that joins meanwhile may be older too.
	defer n.joining.Unlock()
	to := storage.Format
	for _, m := range n.Members(ctx) {
		to = min(to, m.Writes)
	}
	if to <= n.local.Format() {
		return
	}
	if err := n.store.Raise(ctx, to, n.o.Version); err != nil {
		n.log.Warn("the format of the group is not raised", zap.Error(err))
		return
	}
	n.log.Info("the format of the group is raised: older versions cannot read it any more", zap.Uint32("format", to))
}

// Held returns why this server applies no further changes although it takes part in the log, nil if it applies them.
func (n *Node) Held() error { return n.consensus.Load().Held() }

// drain hands the ownership on. If it fails with ErrNoSuccessor, this server stays the owner until another server can
// own the log.
func (n *Node) drain(ctx context.Context) error {
	if l := n.consensus.Load(); l.Owns() {
		if err := n.handOn(ctx, l); err != nil && l.Owns() {
			return err
		}
	}
	return nil
}

// Remove removes a member for good, named by id or address. Only the owner removes members, and it cannot remove
// itself. A removed server needs an empty directory to join again.
func (n *Node) Remove(ctx context.Context, which string) error {
	l := n.consensus.Load()
	if !l.Owns() {
		return fmt.Errorf("cluster: remove a member: %w", storage.ErrNotOwner)
	}
	n.joining.Lock()
	defer n.joining.Unlock()
	m, err := find(l.Members(), which)
	if err != nil {
		return err
	}
	if m.ID == n.self.ID {
		return ErrOwnerStays
	}
	return l.Remove(ctx, m.ID)
}
