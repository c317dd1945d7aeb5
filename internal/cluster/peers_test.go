package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	"hindsight/internal/cluster"
	"hindsight/internal/cluster/consensus"
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

// exhausted fails a number of calls of Accept, as a process without free descriptors does.
type exhausted struct {
	net.Listener
	left atomic.Int32
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return e.Listener.Accept()
}

func TestTheClusterPortSurvivesMissingDescriptors(t *testing.T) {
	l := &exhausted{Listener: listen(t)}
	l.left.Store(3)
	reported := make(chan error, 3)
	s, err := consensus.Listen(l, nil, func(err error) { reported <- err })
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, s.Close())
	}()
	if err := <-reported; !errors.Is(err, syscall.EMFILE) || !errors.Is(s.Accepts(), syscall.EMFILE) {
		t.Errorf("reported %v and accepts %v, want EMFILE", err, s.Accepts())
	}
	assert.True(t, reaches(t, s, s, consensus.Members), "the cluster port accepts no connection after errors of Accept")
	assert.NoError(t, s.Accepts())
}

// counted counts the open accepted connections.
type counted struct {
	net.Listener
	open, most atomic.Int32
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if n := c.open.Add(1); n > c.most.Load() { // One goroutine accepts.
		c.most.Store(n)
	}
	return &leaving{Conn: conn, left: func() { c.open.Add(-1) }}, nil
}

type leaving struct {
	net.Conn
	once sync.Once
	left func()
}

func (l *leaving) Close() error {
	l.once.Do(l.left)
	return l.Conn.Close()
}

// A crowd opens connections to the cluster port, sends nothing, and opens a connection for each that the port closes.
func TestACrowdOfStrangersKeepsNoMemberOut(t *testing.T) {
	const strangers, members, limit = 200, 5, 64
	a, l := newAuthority(t), &counted{Listener: listen(t)}
	to, err := consensus.Listen(l, a.config(t, "127.0.0.1"), func(error) {})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	var closed atomic.Int32
	for range strangers {
		crowd.Go(func() {
			for ctx.Err() == nil {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
				if err != nil {
					continue
				}
				leave := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Read(make([]byte, 1)) // The connection ends.
				closed.Add(1)
				leave()
				_ = conn.Close()
			}
		})
	}
	defer func() {
		stop()
		crowd.Wait()
		assert.NoError(t, to.Close())
	}()
	eventually(t, "the port closes connections of the crowd", func() bool { return closed.Load() > 0 })
	from := stream(t, a.config(t, "127.0.0.1"))
	for n := range members {
		assert.True(t, reaches(t, from, to, consensus.Members), "connection %d of a member did not arrive", n)
	}
	most := l.most.Load()
	assert.True(t, most <= limit+members, "%d connections were open at once, want at most %d without a greeting", most, limit)
}

// A server whose clock is ahead is known by its status.
func TestServersCompareClocks(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	servers[2].ahead = 25 * time.Hour
	for _, s := range servers {
		s.start(t)
	}
	voters(t, 3, servers...)
	for _, m := range servers[0].node().Members(t.Context()) {
		want := time.Duration(0)
		if m.Address == servers[2].address {
			want = 25 * time.Hour
		}
		if m.Err != nil || (m.Offset-want).Abs() > time.Second { // An answer takes at most a second.
			t.Errorf("the clock of %s is %v ahead, want %v: %v", m.Address, m.Offset, want, m.Err)
		}
	}
}

// TestAnEmptiedServerElectsNobody: C is down while A and B commit. Then A is down, and B loses its directory. B must not
// elect C, which lacks the entries of A and B.
func TestAnEmptiedServerElectsNobody(t *testing.T) {
	for round := range 2 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			servers := startAll(t, 3)
			a := owner(t, servers...)
			var others []*server
			for _, s := range servers {
				if s != a {
					others = append(others, s)
				}
			}
			b, c := others[round%2], others[1-round%2]
			learn(t, "m", 5, servers...)
			haveAll(t, map[string]uint64{"m": 5}, servers...)
			c.close(t)
			learn(t, "m", 50, a, b)
			haveAll(t, map[string]uint64{"m": 50}, a, b)
			a.close(t)
			b.close(t)
			b.dir = t.TempDir()
			core, logs := observer.New(zapcore.DebugLevel)
			b.log = zap.New(core)
			b.start(t)
			c.start(t)
			eventually(t, "C has asked B for its vote several times, and nobody owns the log", func() bool {
				require.False(t, b.node().Owns() || c.node().Owns(), "a server without the acknowledged entries owns the log")
				rejected := 0
				for _, e := range logs.All() {
					if text := fmt.Sprint(e.ContextMap()); strings.Contains(text, consensus.ErrOtherMember.Error()) {
						rejected++
					}
				}
				return rejected >= 5
			})
			a.start(t)
			voters(t, 3, servers...)
			haveAll(t, map[string]uint64{"m": 50}, servers...)
		})
	}
}
