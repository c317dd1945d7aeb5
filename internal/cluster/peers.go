package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

const (
	// Another server answers Hello within helloTimeout.
	helloTimeout = time.Second
	// This server connects to a restarted server within maxBackoff.
	maxBackoff     = 500 * time.Millisecond
	connectTimeout = 2 * time.Second
	// A network that drops packets ends no connection. So this server pings after pingAfter without an answer to a call, the
	// least that the library allows, and connects anew after pingTimeout.
	pingAfter   = 10 * time.Second
	pingTimeout = 2 * time.Second
	// No call of unusedFor or longer uses the connection of a removed server, because a call takes at most 10 minutes, and
	// watches end with the server.
	unusedFor = 11 * time.Minute
)

// peers are the connections to other servers, one for each kind and address.
type peers struct {
	stream *consensus.Stream
	now    func() time.Time
	mu     struct {
		sync.Mutex
		closed bool
		conns  map[peer]*used
	}
}

// used is a connection, and the time when conn last returned the connection.
type used struct {
	*grpc.ClientConn
	at time.Time
}

type peer struct {
	kind    consensus.Kind
	address string
}

func newPeers(stream *consensus.Stream, now func() time.Time) *peers {
	p := &peers{stream: stream, now: now}
	p.mu.conns = map[peer]*used{}
	return p
}

// keep closes the connections to addresses that are none of the servers, once no call uses the connection: a server that
// leaves answers calls until it has left.
func (p *peers) keep(servers []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failures []error
	for at, conn := range p.mu.conns {
		if !slices.Contains(servers, at.address) && p.now().Sub(conn.at) > unusedFor {
			delete(p.mu.conns, at)
			failures = append(failures, conn.Close())
		}
	}
	return errors.Join(failures...)
}

func (p *peers) conn(k consensus.Kind, address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, errors.New("cluster: the server is closed")
	}
	at := peer{k, address}
	if conn := p.mu.conns[at]; conn != nil {
		conn.at = p.now()
		return conn.ClientConn, nil
	}
	wait := backoff.DefaultConfig
	wait.BaseDelay, wait.MaxDelay = maxBackoff/4, maxBackoff
	conn, err := grpc.NewClient("passthrough:///"+address,
		// The stream below has TLS.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return p.stream.Dial(ctx, k, address)
		}))
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	p.mu.conns[at] = &used{conn, p.now()}
	return conn, nil
}

func (p *peers) close() error {
	p.mu.Lock()
	p.mu.closed = true
	conns := p.mu.conns
	p.mu.conns = nil
	p.mu.Unlock()
	var failures []error
	for _, conn := range conns {
		failures = append(failures, conn.Close())
	}
	return errors.Join(failures...)
}

func (h *Host) client(address string) (clusterv1.MemberServiceClient, error) {
	conn, err := h.peers.conn(consensus.Members, address)
	if err != nil {
		return nil, err
	}
	return clusterv1.NewMemberServiceClient(conn), nil
}

func (h *Host) hello(ctx context.Context, group uint32, address string) (*clusterv1.HelloResponse, error) {
	return h.greet(ctx, &clusterv1.HelloRequest{Group: group, Id: h.id(group)}, address)
}

func (h *Host) greet(ctx context.Context, r *clusterv1.HelloRequest, address string) (*clusterv1.HelloResponse, error) {
	client, err := h.client(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, helloTimeout)
	defer cancel()
	out, err := client.Hello(ctx, r, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("cluster: ask %s: %w", address, err)
	}
	return out, nil
}

// within bounds a wait. The wait ends before the deadline of ctx, so that the caller learns what it was for.
func within(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded {
		wait = min(wait, time.Until(deadline)/10*9)
	}
	return context.WithTimeout(ctx, wait)
}

// checkFormat rejects a cluster whose format this program does not read. Servers that do not answer count as older.
func (h *Host) checkFormat(ctx context.Context) error {
	for _, a := range h.ask(ctx, 0, h.others()) {
		if a.err == nil && a.said.GetFormat() > storage.Format {
			return fmt.Errorf("%w: %s has format %d, this program reads at most %d: start version %s or a newer one",
				ErrNewer, a.address, a.said.GetFormat(), storage.Format, a.said.GetVersion())
		}
	}
	return nil
}

func (h *Host) format() (newest uint32) {
	for _, g := range h.groups {
		if n := g.node.Load(); n != nil {
			newest = max(newest, n.local.Format())
		}
	}
	return newest
}

func (h *Host) id(group uint32) string {
	if n := h.groups[group].node.Load(); n != nil {
		return n.self.ID
	}
	return ""
}

type answer struct {
	address string
	said    *clusterv1.HelloResponse
	// offset is how far the server's clock is ahead of this server's, give or take half of the time of the call.
	offset time.Duration
	err    error
}

func (h *Host) ask(ctx context.Context, group uint32, addresses []string) []answer {
	return h.greetEach(ctx, &clusterv1.HelloRequest{Group: group, Id: h.id(group)}, addresses)
}

func (h *Host) greetEach(ctx context.Context, r *clusterv1.HelloRequest, addresses []string) []answer {
	out := make([]answer, len(addresses))
	var asking sync.WaitGroup
	for k, address := range addresses {
		asking.Go(func() {
			asked := h.o.Now()
			said, err := h.greet(ctx, r, address)
			out[k] = answer{address: address, said: said, err: err}
			if said.GetTimeNs() != 0 { // Another version has none.
				middle := asked.Add(h.o.Now().Sub(asked) / 2)
				out[k].offset = time.Unix(0, said.GetTimeNs()).Sub(middle)
			}
		})
	}
	asking.Wait()
	return out
}
