package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/clock"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

const (
	// The time between two searches for the owner of a group that this server is no member of.
	searchPause = 20 * time.Millisecond
	// A search does not wait longer for the other servers, because some may be dead.
	searchTimeout = 250 * time.Millisecond
)

// Group is a group of models, as a server sees it that need not be a member. Its methods may be called concurrently.
type Group struct {
	host   *Host
	number uint32
	// node is nil if this server is no member, or opens its store.
	node atomic.Pointer[Node]
	// Node.Close holds calling while it removes the node.
	calling sync.RWMutex
	// joined closes once this server is a member, of group 0 only.
	joined chan struct{}
	once   sync.Once
	// searching has a token while a call searches for the owner.
	searching chan struct{}
	repairs   repairs
	// located is the answer of the last search, while this server is no member.
	located struct {
		sync.Mutex
		owner   string
		members []string
		turn    chan struct{}
	}
}

func newGroup(h *Host, number uint32) *Group {
	g := &Group{host: h, number: number, joined: make(chan struct{}), searching: make(chan struct{}, 1)}
	g.located.turn = make(chan struct{})
	return g
}

// Number returns the number of the group.
func (g *Group) Number() uint32 { return g.number }

// Node returns this server's part of the group, nil if this server is no member, or opens its store.
func (g *Group) Node() *Node { return g.node.Load() }

// leave ends a node's part of the group. Calls of other servers that begin later do not find the node.
func (g *Group) leave(n *Node) {
	g.calling.Lock()
	defer g.calling.Unlock()
	g.node.CompareAndSwap(n, nil)
}

// call returns the node for a call of another server, nil if there is none. The node stays open until done, and ctx
// ends when the node closes.
func (g *Group) call(ctx context.Context) (n *Node, in context.Context, done func()) {
	g.calling.RLock()
	defer g.calling.RUnlock()
	if n = g.node.Load(); n == nil {
		return nil, ctx, func() {}
	}
	n.calls.Add(1)
	in, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(n.lifetime, cancel)
	return n, in, func() { forget(); cancel(); n.calls.Done() }
}

// Owns is as Node.Owns.
func (g *Group) Owns() bool { return g.log().Owns() }

// Confirm reports whether this server owns the group, and no other server has owned it before the call.
func (g *Group) Confirm(ctx context.Context) bool { return g.log().Confirm(ctx) }

// Age is as Node.Age.
func (g *Group) Age() time.Duration { return g.log().Age() }

// log returns this server's log of the group, nil if this server has none.
func (g *Group) log() *consensus.Log {
	if n := g.node.Load(); n != nil {
		return n.consensus.Load()
	}
	return nil
}

// Owner returns the owner that this server knows. Of a group that this server is no member of, the id is empty.
func (g *Group) Owner() (Member, bool) {
	if n := g.node.Load(); n != nil {
		return n.Owner()
	}
	owner := g.last()
	return Member{Address: owner}, owner != ""
}

// Turned is as Node.Turned.
func (g *Group) Turned() <-chan struct{} {
	if n := g.node.Load(); n != nil {
		return n.Turned()
	}
	g.located.Lock()
	defer g.located.Unlock()
	return g.located.turn
}

// Addresses returns the addresses of the members that this server knows, sorted.
func (g *Group) Addresses() []string {
	if n := g.node.Load(); n != nil {
		return addressesOf(peersOf(n.Status().Members))
	}
	g.located.Lock()
	defer g.located.Unlock()
	return slices.Clone(g.located.members)
}

func addressesOf(peers []*clusterv1.Peer) []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.GetAddress())
	}
	slices.Sort(out)
	return out
}

func (g *Group) set(owner string, members []string) {
	g.located.Lock()
	defer g.located.Unlock()
	g.located.members = members
	if g.located.owner != owner {
		g.located.owner = owner
		close(g.located.turn)
		g.located.turn = make(chan struct{})
	}
}

// Conn is as Node.Conn. If this server is no member of the group, Conn asks the other servers for the owner.
func (g *Group) Conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	for {
		if n := g.node.Load(); n != nil {
			return n.Conn(ctx)
		}
		if owner := g.locate(ctx); owner != "" {
			conn, err := g.host.peers.conn(consensus.Forwarded, owner)
			if err != nil {
				return nil, err
			}
			return remote{conn, g, owner}, nil
		}
		if !clock.Sleep(ctx, searchPause) {
			return nil, fmt.Errorf("cluster: no owner of group %d: %w: %w", g.number, storage.ErrNotOwner, context.Cause(ctx))
		}
	}
}

// locate returns the owner that is known, or searches. Of concurrent calls one searches, and the others wait for it.
func (g *Group) locate(ctx context.Context) string {
	if owner := g.last(); owner != "" {
		return owner
	}
	select {
	case g.searching <- struct{}{}:
		defer func() { <-g.searching }()
	case <-ctx.Done():
		return ""
	}
	if owner := g.last(); owner != "" {
		return owner
	}
	return g.search(ctx)
}

func (g *Group) last() string {
	g.located.Lock()
	defer g.located.Unlock()
	return g.located.owner
}

// search asks the other servers for the owner, and returns its address, empty if none knows it. It returns as soon as the
// owner itself has answered.
func (g *Group) search(ctx context.Context) string {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel() // The remaining calls end.
	owner, members := "", []string(nil)
	others := g.host.others()
	answers := make(chan answer, len(others))
	for _, address := range others {
		asking.Go(func() {
			said, err := g.host.hello(ctx, g.number, address)
			answers <- answer{address: address, said: said, err: err}
		})
	}
	for range others {
		a := <-answers
		if a.err != nil || a.said.GetOwnerAddress() == "" {
			continue
		}
		owner, members = a.said.GetOwnerAddress(), addressesOf(a.said.GetMembers())
		if owner == a.address { // The owner itself says so.
			break
		}
	}
	if g.node.Load() == nil {
		g.set(owner, members)
	}
	return owner
}

// remote is a connection to an owner that a search has located. After a call that the server did not take, the next
// call searches again.
type remote struct {
	*grpc.ClientConn
	group *Group
	owner string
}

func (r remote) Invoke(ctx context.Context, method string, args, reply any, o ...grpc.CallOption) error {
	return r.ClientConn.Invoke(ctx, method, args, reply, append(o, r.check(ctx))...)
}

func (r remote) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.ClientConn.NewStream(ctx, d, method, append(o, r.check(ctx))...)
}

// check forgets the owner after an error of a server that may not own the group. A caller that leaves is no error of the
// server.
func (r remote) check(ctx context.Context) grpc.CallOption {
	return grpc.OnFinish(func(err error) {
		code := status.Code(err)
		if ctx.Err() == nil && (code == codes.Unavailable || code == codes.Canceled) && r.group.last() == r.owner {
			r.group.set("", nil)
		}
	})
}

// ConnTo returns a connection for calls that this server forwards to a server, named by its address or by its member id
// in group 0. For this server itself the connection is nil.
func (h *Host) ConnTo(which string) (grpc.ClientConnInterface, error) {
	m, err := find(h.members(), which)
	switch {
	case which == h.o.Address, err == nil && m.ID == h.id(0):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return h.peers.conn(consensus.Forwarded, m.Address)
}
