package cluster_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// front keeps the port of a server while the server is closed, so that nobody else gets the port. It then rejects
// connections.
type front struct {
	net.Listener
	running sync.WaitGroup
	current atomic.Pointer[half]
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{Listener: listen(t)}
	f.running.Go(func() {
		for {
			conn, err := f.Accept()
			if err != nil {
				return
			}
			h := f.current.Load()
			if h == nil {
				_ = conn.Close()
				continue
			}
			select {
			case h.conns <- conn:
			case <-h.closed:
				_ = conn.Close()
			}
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
		f.running.Wait()
	})
	return f
}

// open returns the listener of a node.
func (f *front) open() net.Listener {
	h := &half{front: f, conns: make(chan net.Conn), closed: make(chan struct{})}
	f.current.Store(h)
	return h
}

// half is a front as a node sees it, from its opening to its end.
type half struct {
	front  *front
	once   sync.Once
	conns  chan net.Conn
	closed chan struct{}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error {
	h.once.Do(func() { close(h.closed) })
	h.front.current.CompareAndSwap(h, nil)
	return nil
}

func (h *half) Addr() net.Addr { return h.front.Addr() }

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}
