package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/clock"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

const (
	// Until a cluster exists, each server asks the others every meetInterval.
	meetInterval = 250 * time.Millisecond
	// The log says every complainInterval which servers do not answer.
	complainInterval = 10 * time.Second
	tendInterval     = 250 * time.Millisecond
	// A server tends its part of a group every restInterval if it has nothing to ask for. It tends all these parts
	// together, so that it wakes less often.
	restInterval = time.Second
	joinTimeout  = 5 * time.Second
	// A member without a vote asks for a vote once its state is younger than currentAge.
	currentAge = time.Second
	// A member that knows no owner for lonelyAfter asks the others whether it was removed.
	lonelyAfter = 2 * time.Second
)

func (h *Host) founders() []string {
	out := append(slices.Clone(h.o.Join), h.o.Address)
	slices.Sort(out)
	return slices.Compact(out)
}

// run takes part in the cluster until ctx ends or the node fails.
func (n *Node) run(ctx context.Context) {
	err := error(nil)
	if n.number == 0 {
		err = n.foundOrJoin(ctx)
	}
	if err == nil {
		err = n.openLog()
	}
	if err != nil {
		if ctx.Err() == nil {
			n.fail(err)
		}
		return
	}
	l := n.consensus.Load()
	// Only an owner that has added this server sends entries to it. The server may have stopped in the middle of its
	// removal: then it asks whether it is still a member, and does not join again.
	n.member = l.Status().Last > 0
	due := time.NewTimer(tendInterval)
	defer due.Stop()
	lonely := n.o.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case err = <-l.Failed():
		case <-n.raftLog.Rejected():
			err = n.raftLog.Failed()
		case <-n.local.Rejected():
			err = n.local.Failed()
		case <-due.C:
			now := n.o.Now()
			_, known := l.Owner()
			if known {
				lonely = now
			}
			var rests bool
			rests, err = n.tend(ctx, l, now.Sub(lonely))
			interval := tendInterval
			if now = n.o.Now(); rests && known && n.o.Groups > 1 {
				interval = now.Truncate(restInterval).Add(restInterval).Sub(now)
			}
			due.Reset(interval)
		}
		if err != nil {
			n.fail(err)
			// The log ends now, so that this server counts for no majority. Close joins the other goroutines.
			if err := l.Close(); err != nil {
				n.log.Warn("close the log", zap.Error(err))
			}
			return
		}
	}
}

func (n *Node) openLog() error {
	l, err := consensus.Open(consensus.Options{
		Group: n.number, Calm: n.o.Groups > 1, Self: n.self, Storage: n.storage, Stream: n.host.stream, Apply: n.store.Apply, Sync: n.local.Sync,
		Has: n.has, Behind: n.isBehind, Marks: n.o.Marks, Now: n.o.Now, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.consensus.Store(l)
	close(n.opened)
	g := n.host.groups[n.number]
	g.once.Do(func() { close(g.joined) })
	return nil
}

func (n *Node) has(index uint64) bool {
	base, err := n.local.Base()
	if err != nil {
		n.fail(err)
		return false
	}
	return max(base, n.local.Position().Index) >= index
}

// foundOrJoin, for group 0, returns when this server is a member, has founded a cluster, or knows a cluster to join.
//
// A server founds a cluster only after every server of --cluster-join has answered and none is a member. So a server
// that has lost its directory founds no second cluster. The server with models founds. If no server has models, the
// server with the first address founds.
func (n *Node) foundOrJoin(ctx context.Context) error {
	complained := time.Time{}
	for {
		if exists, err := consensus.Exists(n.storage); exists || err != nil {
			return err
		}
		answers := n.host.ask(ctx, n.number, n.host.others())
		founder, missing, err := n.founder(answers)
		switch {
		case err != nil:
			return err
		case founder == "" && len(missing) == 0:
			return n.keepGroups() // A member answered.
		case founder == n.self.Address:
			n.log.Info("this server founds the cluster", zap.String("address", n.self.Address), zap.Bool("models", n.data))
			// The groups come first, because the cluster exists once group 0 exists.
			if err := errors.Join(n.keepGroups(), n.host.foundGroups(ctx)); err != nil {
				return err
			}
			return consensus.Found(n.storage, n.self, n.local.Position().Index)
		}
		if now := n.o.Now(); len(missing) > 0 && now.Sub(complained) >= complainInterval {
			complained = now
			n.log.Warn("no cluster yet: every server of --cluster-join has to answer once, with the same servers", zap.Strings("missing", missing))
		}
		if !clock.Sleep(ctx, meetInterval) {
			return context.Cause(ctx)
		}
	}
}

func (n *Node) keepGroups() error {
	if n.o.Groups == 1 {
		return nil
	}
	return n.local.SetGroups(n.o.Groups)
}

// joinAgain opens the groups that have this server's address as a member, and that have no directory here: the server
// has lost its directory. The server joins them as a new member, which replaces the member at its address.
func (h *Host) joinAgain(ctx context.Context, have []uint32) {
	missing := map[uint32]bool{}
	for _, g := range h.groups[1:] {
		if !slices.Contains(have, g.number) {
			missing[g.number] = true
		}
	}
	for len(missing) > 0 {
		for _, a := range h.askAll(ctx, h.others()) {
			for _, hosted := range a.said.GetHosted() {
				if !missing[hosted.GetGroup()] || hosted.GetOwnerAddress() != a.address { // Only an owner knows the members.
					continue
				}
				delete(missing, hosted.GetGroup())
				if !slices.Contains(addressesOf(hosted.GetMembers()), h.o.Address) {
					continue
				}
				select {
				case h.opening <- hosted.GetGroup():
				case <-ctx.Done():
				}
			}
		}
		if !clock.Sleep(ctx, placeInterval) {
			return
		}
	}
}

// founder returns the address of the server that founds the cluster, or the reasons why the founder is not known yet.
// Both are empty if a server is a member already: then this server joins.
func (n *Node) founder(answers []answer) (address string, missing []string, err error) {
	var withData []string
	if n.data {
		withData = append(withData, n.self.Address)
	}
	addresses, want := []string{n.self.Address}, n.host.founders()
	for _, a := range answers {
		switch {
		case a.err != nil:
			missing = append(missing, a.err.Error())
		case a.said.GetId() == n.self.ID: // The address is another name of this server.
		case a.said.GetMember() && max(a.said.GetGroups(), 1) != uint32(n.o.Groups):
			return "", nil, fmt.Errorf("%w: got %d, and %s belongs to a cluster of %d", ErrGroups, n.o.Groups, a.address, max(a.said.GetGroups(), 1))
		case a.said.GetMember() && n.data:
			return "", nil, fmt.Errorf("%w: %s belongs to a cluster, and this server has models of its own", ErrFounders, a.address)
		case a.said.GetMember():
			return "", nil, nil
		case max(a.said.GetGroups(), 1) != uint32(n.o.Groups):
			missing = append(missing, fmt.Sprintf("%s has --cluster-groups %d, and this server has %d", a.address, max(a.said.GetGroups(), 1), n.o.Groups))
		case !slices.Equal(a.said.GetServers(), want):
			missing = append(missing, fmt.Sprintf("%s has --cluster-join %s, and this server has %s", a.address, strings.Join(a.said.GetServers(), ","), strings.Join(want, ",")))
		default:
			addresses = append(addresses, a.said.GetAddress())
			if a.said.GetData() {
				withData = append(withData, a.said.GetAddress())
			}
		}
	}
	switch {
	case len(missing) > 0:
		return "", missing, nil
	case len(withData) > 1:
		return "", nil, fmt.Errorf("%w: %s: leave models on one of them", ErrFounders, strings.Join(withData, ", "))
	case len(withData) == 1:
		return withData[0], nil, nil
	}
	return slices.Min(addresses), nil, nil
}

// tend keeps this server a member. It asks the owner to add this server, to update its address, or to give it a vote.
// It does not retry, because run calls it again, after restInterval if rests is true: nothing was left to ask for. After
// an error this server must leave the cluster.
func (n *Node) tend(ctx context.Context, l *consensus.Log, lonely time.Duration) (rests bool, err error) {
	if n.number == 0 { // The host's groups share its connections.
		if err := n.host.peers.keep(n.host.servers()); err != nil {
			n.log.Debug("close the connections to removed servers", zap.Error(err))
		}
	}
	if l.Owns() {
		if n.local.Format() < storage.Format {
			n.raise(ctx)
		}
		if n.host.draining.Load() {
			if err := n.handOn(ctx, l); err != nil {
				n.log.Debug("this server is drained but stays the owner", zap.Error(err))
			}
		}
		return !n.host.draining.Load(), nil
	}
	members := l.Members()
	k := slices.IndexFunc(members, func(m Member) bool { return m.ID == n.self.ID })
	n.member = n.member || k >= 0
	switch {
	case k < 0 && n.member:
		return false, n.checkRemoved(ctx) // A removed server that asked to join would be back at once.
	case k < 0:
		return false, n.join(ctx, l, false)
	case members[k].Address != n.self.Address:
		return false, n.join(ctx, l, members[k].Voter)
	case !members[k].Voter && l.Age() < currentAge && n.mayVote(members):
		return false, n.join(ctx, l, true)
	case lonely >= lonelyAfter:
		return false, n.checkRemoved(ctx)
	}
	return members[k].Voter || !n.mayVote(members), nil
}

// maxVoters bounds the voters of group 0 of a cluster with several groups, of which every server is a member.
const maxVoters = 5

// Joins says that this server is to have a vote in its group, and has none yet. The group does not count on it: what a
// lone founder acknowledges is on the founder alone.
func (n *Node) Joins() bool {
	l := n.consensus.Load()
	if l == nil {
		return true
	}
	members := l.Members()
	return n.mayVote(members) && !slices.ContainsFunc(members, func(m Member) bool { return m.ID == n.self.ID && m.Voter })
}

func (n *Node) mayVote(members []Member) bool {
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	return n.number > 0 || n.o.Groups == 1 || voters < maxVoters
}

// join asks the owner to make this server a member, with or without a vote. If the owner cannot, join returns nil,
// and tend tries again.
func (n *Node) join(ctx context.Context, l *consensus.Log, current bool) error {
	address := ""
	if owner, known := l.Owner(); known {
		address = owner.Address
	} else {
		for _, a := range n.host.ask(ctx, n.number, n.host.others()) {
			if a.said.GetOwnerAddress() != "" {
				address = a.said.GetOwnerAddress()
			}
		}
	}
	if address == "" {
		return nil
	}
	client, err := n.host.client(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if _, err = client.Join(ctx, &clusterv1.JoinRequest{Group: n.number, Id: n.self.ID, Address: n.self.Address, Current: current}); err == nil {
		return nil
	}
	if status.Code(err) == codes.FailedPrecondition {
		n.log.Warn("the owner does not add this server", zap.Error(err))
	}
	n.log.Debug("not joined", zap.Error(err))
	return nil
}

// checkRemoved fails with ErrRemoved if the owner does not know this server. The cluster has then removed the server
// while the server was down.
func (n *Node) checkRemoved(ctx context.Context) error {
	for _, a := range n.host.ask(ctx, n.number, n.host.others()) {
		if a.err == nil && a.said.GetOwnerId() == a.said.GetId() && !a.said.GetKnown() {
			return ErrRemoved
		}
	}
	return nil
}
