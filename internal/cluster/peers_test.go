package cluster_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"

	"hindsight/internal/cluster"
)

// A server closes its connection to a removed server, but not while a call may use the connection.
func TestConnectionsToRemovedServersClose(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := cluster.NewPeers(stream(t, nil), func() time.Time { return now })
	conn := func(address string) *grpc.ClientConn {
		t.Helper()
		c, err := p.Conn(address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	stays, leaves := conn("127.0.0.1:1"), conn("127.0.0.1:2")
	for _, c := range []struct {
		after  time.Duration
		closed bool
	}{{time.Minute, false}, {cluster.UnusedFor, false}, {time.Nanosecond, true}} {
		if now = now.Add(c.after); c.after == time.Minute {
			conn("127.0.0.1:2") // Another call.
		}
		if err := p.Keep("127.0.0.1:1"); err != nil {
			t.Error(err)
		}
		if got := leaves.GetState().String() == "SHUTDOWN"; got != c.closed {
			t.Errorf("%v after a call: closed is %v, want %v", c.after, got, c.closed)
		}
	}
	if conn("127.0.0.1:1") != stays || conn("127.0.0.1:2") == leaves {
		t.Error("a connection to a member was closed, or a closed one is used again")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
