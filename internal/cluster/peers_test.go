package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		require.NoError(t, err)
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
		assert.NoError(t, p.Keep("127.0.0.1:1"))
		assert.Equal(t, c.closed, leaves.GetState().String() == "SHUTDOWN", c.after)
	}
	assert.True(t, conn("127.0.0.1:1") == stays && conn("127.0.0.1:2") != leaves, "a connection to a member was closed, or a closed one is used again")
	assert.NoError(t, p.Close())
}
