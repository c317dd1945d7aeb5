package cluster_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/consensus"
)

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
