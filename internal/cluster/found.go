package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
)

const (
	// Until a cluster exists, each server asks the others every meetInterval.
	meetInterval = 250 * time.Millisecond
	// The log says every complainInterval which servers do not answer.
	complainInterval = 10 * time.Second
	tendInterval     = 250 * time.Millisecond
	joinTimeout      = 5 * time.Second
	// A member without a vote asks for a vote once its state is younger than currentAge.
	currentAge = time.Second
	// A member that knows no owner for lonelyAfter asks the others whether it was removed.
	lonelyAfter = 2 * time.Second
)

// founders returns the addresses of --cluster-join and the server's own address, sorted.
func (n *Node) founders() []string {
	out := append(slices.Clone(n.o.Join), n.self.Address)
	slices.Sort(out)
	return slices.Compact(out)
}

// others returns the addresses of --cluster-join and of the members, without this server.
func (n *Node) others() []string {
	out := n.founders()
	if l := n.consensus.Load(); l != nil {
		for _, m := range l.Members() {
			out = append(out, m.Address)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(address string) bool { return address == n.self.Address })
}

// run takes part in the cluster until ctx ends or the node fails.
func (n *Node) run(ctx context.Context) {
	err := n.become(ctx)
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
	ticker := time.NewTicker(tendInterval)
	defer ticker.Stop()
	lonely := n.o.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case err = <-l.Failed():
		case <-n.raftLog.Refused():
			err = n.raftLog.Failed()
		case <-n.local.Refused():
			err = n.local.Failed()
		case <-ticker.C:
			if _, known := l.Owner(); known {
				lonely = n.o.Now()
			}
			err = n.tend(ctx, l, n.o.Now().Sub(lonely))
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
		Self: n.self, Storage: n.storage, Stream: n.stream, Apply: n.store.Apply, Sync: n.local.Sync,
		Has: n.has, Behind: n.isBehind, Marks: n.o.Marks, Now: n.o.Now, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.consensus.Store(l)
	close(n.opened)
	return nil
}

// has reports whether the local store has all entries up to an index.
func (n *Node) has(index uint64) bool {
	base, err := n.local.Base()
	if err != nil {
		n.fail(err)
		return false
	}
	return max(base, n.local.Position().Index) >= index
}

// become returns when this server is a member, has founded a cluster, or has found a cluster to join.
//
// A server founds a cluster only after every server of --cluster-join has answered and none is a member. So a server
// that has lost its directory founds no second cluster. The server with models founds. If no server has models, the
// server with the first address founds.
func (n *Node) become(ctx context.Context) error {
	complained := time.Time{}
	for {
		if exists, err := consensus.Exists(n.storage); exists || err != nil {
			return err
		}
		answers := n.ask(ctx, n.others())
		founder, missing, err := n.founder(answers)
		switch {
		case err != nil:
			return err
		case founder == "" && len(missing) == 0:
			return nil // A member answered.
		case founder == n.self.Address:
			n.log.Info("this server founds the cluster", zap.String("address", n.self.Address), zap.Bool("models", n.data))
			return consensus.Found(n.storage, n.self, n.local.Position().Index)
		}
		if now := n.o.Now(); len(missing) > 0 && now.Sub(complained) >= complainInterval {
			complained = now
			n.log.Warn("no cluster yet: every server of --cluster-join has to answer once, with the same servers", zap.Strings("missing", missing))
		}
		if err := pause(ctx, meetInterval); err != nil {
			return err
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
	addresses, want := []string{n.self.Address}, n.founders()
	for _, a := range answers {
		switch {
		case a.err != nil:
			missing = append(missing, a.err.Error())
		case a.said.GetId() == n.self.ID: // The address is another name of this server.
		case a.said.GetMember() && n.data:
			return "", nil, fmt.Errorf("%w: %s belongs to a cluster, and this server has models of its own", ErrFounders, a.address)
		case a.said.GetMember():
			return "", nil, nil
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
// It does not retry, because run calls it again. After an error this server must leave the cluster.
func (n *Node) tend(ctx context.Context, l *consensus.Log, lonely time.Duration) error {
	if l.Owns() {
		if n.draining.Load() {
			if err := n.handOn(ctx, l); err != nil {
				n.log.Debug("this server is drained but stays the owner", zap.Error(err))
			}
		}
		return nil
	}
	members := l.Members()
	k := slices.IndexFunc(members, func(m Member) bool { return m.ID == n.self.ID })
	switch {
	case k < 0:
		return n.join(ctx, l, false)
	case members[k].Address != n.self.Address:
		return n.join(ctx, l, members[k].Voter)
	case !members[k].Voter && l.Age() < currentAge:
		return n.join(ctx, l, true)
	case lonely >= lonelyAfter:
		return n.checkRemoved(ctx)
	}
	return nil
}

// join asks the owner to make this server a member, with or without a vote. If the owner cannot, join returns nil,
// and tend tries again.
func (n *Node) join(ctx context.Context, l *consensus.Log, current bool) error {
	address := ""
	if owner, known := l.Owner(); known {
		address = owner.Address
	} else {
		for _, a := range n.ask(ctx, n.others()) {
			if a.said.GetOwnerAddress() != "" {
				address = a.said.GetOwnerAddress()
			}
		}
	}
	if address == "" {
		return nil
	}
	client, err := n.client(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if _, err = client.Join(ctx, &clusterv1.JoinRequest{Id: n.self.ID, Address: n.self.Address, Current: current}); err == nil {
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
	for _, a := range n.ask(ctx, n.others()) {
		if a.err == nil && a.said.GetOwnerId() == a.said.GetId() && !a.said.GetKnown() {
			return ErrRemoved
		}
	}
	return nil
}
