package rpc

import (
	"net"
	"sync/atomic"
)

// counting is a listener whose connections count what they receive.
type counting struct{ net.Listener }

// Accept implements net.Listener.
func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // It is the listener's.
	}
	return &counted{Conn: c}, nil
}

// counted is a connection that tells through its address how much it received:
// gRPC hands the address to calls, not the connection.
type counted struct {
	net.Conn
	received atomic.Int64
}

// Read implements net.Conn.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err //nolint:wrapcheck // It is the connection's.
}

// RemoteAddr implements net.Conn.
func (c *counted) RemoteAddr() net.Addr { return countedAddr{c.Conn.RemoteAddr(), &c.received} }

type countedAddr struct {
	net.Addr
	received *atomic.Int64
}

// sentBy is how much came from the peer of an address. Of one that is not counted
// it is nothing.
func sentBy(a net.Addr) *atomic.Int64 {
	if c, ok := a.(countedAddr); ok {
		return c.received
	}
	return new(atomic.Int64)
}
