package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// Every server shows the cluster, and changes of the cluster go to the owner.
func TestClusterService(t *testing.T) {
	p := servePair(t)
	ctx := t.Context()
	r, err := p.replica.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	require.True(t, err == nil && r.GetOwner() == "a" && r.GetServer() == "b" && len(r.GetServers()) == 3, "%v, %v", r, err)
	_, err = p.replica.cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{Server: "b"})
	// Both servers of the pair say that they are b: the other one refuses to be a.
	_, drainErr := p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{Server: "a"})
	assert.Equal(t, "SERVER_NOT_FOUND", reason(status.Convert(drainErr)), drainErr)
	_, removeErr := p.replica.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: "c"})
	require.NoError(t, errors.Join(err, removeErr))
	_, err = p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{Server: "b"})
	if here, there := []string{"drain "}, []string{"move b", "remove c"}; err != nil || !slices.Equal(p.ofOwner.calls, there) || !slices.Equal(p.ofReplica.calls, here) {
		t.Errorf("%v: the owner made %v, want %v; the other %v, want %v", err, p.ofOwner.calls, there, p.ofReplica.calls, here)
	}
	for want, err := range map[string]error{
		"SERVER_NOT_FOUND": errOf(p.replica.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: "x"})),
		"INVALID_REQUEST":  errOf(p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{})),
		"NO_CLUSTER":       errOf(serve(t).cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{})),
	} {
		assert.Equal(t, want, reason(status.Convert(err)), err)
	}
	_, err = p.replica.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{Group: 1})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "group 1: %v", err)
	r, err = serve(t).cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	assert.True(t, err == nil && len(r.GetServers()) == 0, "without a cluster: %v, %v", r, err)
}

// fakeCluster is a cluster that a test controls.
type fakeCluster struct {
	owns   atomic.Bool
	age    atomic.Int64
	conn   atomic.Pointer[grpc.ClientConn]
	other  atomic.Bool
	member atomic.Bool
	mu     sync.Mutex
	turned chan struct{}
	// calls are the changes of the cluster.
	calls []string
}

func (c *fakeCluster) Confirm(context.Context) bool { return c.owns.Load() }

func (c *fakeCluster) Conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	if conn := c.conn.Load(); conn != nil {
		return conn, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c *fakeCluster) Age() time.Duration { return time.Duration(c.age.Load()) }

func (c *fakeCluster) Owner() (id, address string) {
	if c.conn.Load() == nil && !c.owns.Load() {
		return "", ""
	}
	if c.other.Load() {
		return "c", "192.0.2.3:7"
	}
	if !c.member.Load() {
		return "192.0.2.1:7", "192.0.2.1:7"
	}
	return "a", "192.0.2.1:7"
}

func (c *fakeCluster) Turned() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turned == nil {
		c.turned = make(chan struct{})
	}
	return c.turned
}

// turn sets other: another server is the owner, or member: this server joins the group.
func (c *fakeCluster) turn(set *atomic.Bool) {
	set.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turned != nil { // Nobody waits before the first call of Turned, which then finds the new owner.
		close(c.turned)
		c.turned = nil
	}
}

func (c *fakeCluster) Server(server string) (grpc.ClientConnInterface, error) {
	if server == "b" {
		return nil, nil
	}
	if server == "x" {
		return nil, rpc.ErrServerNotFound
	}
	return c.conn.Load(), nil
}

func (c *fakeCluster) Status(context.Context) *hindsightv1.GetClusterResponse {
	return &hindsightv1.GetClusterResponse{Server: "b", Owner: "a", Servers: []*hindsightv1.Server{{Server: "a"}, {Server: "b"}, {Server: "c"}}}
}

func (c *fakeCluster) Addresses() []string { return []string{"192.0.2.1:7", "192.0.2.2:7"} }

func (c *fakeCluster) note(call, server string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call+" "+server)
	if server == "x" {
		return rpc.ErrServerNotFound
	}
	return nil
}

func (c *fakeCluster) Move(_ context.Context, server string) error   { return c.note("move", server) }
func (c *fakeCluster) Drain(context.Context) error                   { return c.note("drain", "") }
func (c *fakeCluster) Remove(_ context.Context, server string) error { return c.note("remove", server) }

// between is a network between a client and the server. Once it is deaf, it carries
// calls but no answers.
func between(t *testing.T, server string) (address string, deaf *atomic.Bool) {
	t.Helper()
	var listen net.ListenConfig
	listener := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	deaf = new(atomic.Bool)
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		group.Wait()
	})
	carry := func(to, from net.Conn, lost *atomic.Bool) {
		defer func() { _, _ = to.Close(), from.Close() }() // The other direction ends too.
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if lost != nil && lost.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var dialer net.Dialer
			upstream, err := dialer.DialContext(ctx, "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = client.Close(), upstream.Close() })
			group.Go(func() { carry(upstream, client, nil) })
			group.Go(func() { carry(client, upstream, deaf) })
		}
	})
	return listener.Addr().String(), deaf
}

// An observation whose answer was lost is sent again: it gets the first answer, and is
// learned once.
func TestLostAnswers(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	address, deaf := between(t, s.connection.Target())
	connection := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	far := hindsightv1.NewPredictionServiceClient(connection)
	must(far.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}}))(t)
	deaf.Store(true)
	const calls = 40
	request := func(n int) *hindsightv1.ObserveRequest {
		return &hindsightv1.ObserveRequest{
			Model: "m", Features: []float64{float64(n)}, ObservationId: fmt.Sprint("o-", n), Target: label(float64(n % 3)),
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for n := range calls {
		group.Go(func() {
			_, err := far.Observe(ctx, request(n))
			assert.Equal(t, codes.Canceled, status.Code(err), "%v %v", n, err)
		})
	}
	// The callers leave once all calls are learned. A caller that leaves before may not have
	// sent its call.
	limit, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	watch := must(s.models.WatchModel(limit, &hindsightv1.WatchModelRequest{Model: "m", MaxOutcomesPerSecond: 100}))(t)
	for learned := uint64(0); learned < calls; {
		event, err := watch.Recv()
		require.NoError(t, err, "%v %v", learned, calls)
		learned = max(learned, event.GetStats().GetObservations(), event.GetOutcome().GetOutcome().GetSequence())
	}
	leave()
	group.Wait()
	sequences := map[uint64]bool{}
	for n := range calls {
		first, err := s.Observe(t.Context(), request(n))
		require.True(t, err == nil && first.GetOutcome().GetDuplicate(), "call %d again: %v, %v", n, first, err)
		again, err := s.Observe(t.Context(), request(n))
		assert.True(t, err == nil && first.String() == again.String(), "call %d a third time: %v, %v; want %v", n, again, err, first)
		sequences[first.GetOutcome().GetSequence()] = true
	}
	assert.True(t, len(sequences) == calls && !sequences[0] && !sequences[calls+1], "sequences %v", sequences)
}
