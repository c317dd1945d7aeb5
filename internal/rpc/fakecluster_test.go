package rpc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"hindsight/internal/rpc"
)

// fakeCluster is a cluster that a test controls.
type fakeCluster struct {
	owns   atomic.Bool
	age    atomic.Int64
	conn   atomic.Pointer[grpc.ClientConn]
	other  atomic.Bool
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

// turn makes another server the owner.
func (c *fakeCluster) turn() {
	c.other.Store(true)
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

func (c *fakeCluster) Status(context.Context) rpc.ClusterStatus {
	return rpc.ClusterStatus{Server: "b", Owner: "a", Servers: []rpc.ClusterServer{
		{ID: "a", Address: "192.0.2.1:7", Voter: true, Reachable: true, Applied: 7},
		{ID: "b", Address: "192.0.2.2:7", Voter: true},
		{ID: "c", Address: "192.0.2.3:7"},
	}}
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
