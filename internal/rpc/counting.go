package rpc

import (
	"net"
	"sync"
	"sync/atomic"
)

// counting is a listener whose connections count what comes and goes.
type counting struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // It is the listener's.
	}
	return l.connections.add(c), nil
}

// connections are the open ones.
type connections struct {
	// owed is what all have to send yet.
	owed atomic.Int64
	mu   sync.Mutex
	open map[*counted]bool
}

func (a *connections) add(c net.Conn) *counted {
	out := &counted{Conn: c, all: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[out] = true
	return out
}

// closeSlow closes connections that in patience calls of it have sent less than they
// owed at the first, if that was more than little. It tells how many.
func (a *connections) closeSlow(little int64, patience int) (closed int64) {
	a.mu.Lock()
	var slow []*counted
	for c := range a.open {
		if c.looks++; c.looks <= patience {
			continue
		}
		sent := c.sent.Load()
		if c.due >= little && sent-c.seen < c.due {
			slow = append(slow, c)
		}
		c.looks, c.due, c.seen = 0, c.owed.Load(), sent
	}
	a.mu.Unlock()
	for _, c := range slow {
		_ = c.Close() // gRPC reads from it, and finds out.
	}
	return int64(len(slow))
}

// counted is a connection that counts. Calls find it through its address: gRPC
// hands them that, not the connection.
type counted struct {
	net.Conn
	all            *connections
	received, sent atomic.Int64
	// owed is what calls have answered and gRPC has not sent yet, at most: an answer
	// that its client no longer wants is never sent. What frames add is left out, so
	// that it is soon nothing when the client reads.
	owed   atomic.Int64
	closed atomic.Bool
	// These are closeSlow's: how often it has looked since it saw the connection owe
	// due, and have sent seen.
	looks     int
	due, seen int64
}

// Read implements net.Conn.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err //nolint:wrapcheck // It is the connection's.
}

// Write implements net.Conn. What it is about to send is owed no more: the client
// may ask again before it returns.
func (c *counted) Write(p []byte) (int, error) {
	for {
		owed := c.owed.Load()
		paid := min(owed, int64(len(p)))
		if c.owed.CompareAndSwap(owed, owed-paid) {
			c.all.owed.Add(-paid)
			break
		}
	}
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err //nolint:wrapcheck // It is the connection's.
}

// owe notes an answer of n bytes.
func (c *counted) owe(n int64) {
	c.owed.Add(n)
	c.all.owed.Add(n)
	if c.closed.Load() {
		c.forgive()
	}
}

func (c *counted) forgive() { c.all.owed.Add(-c.owed.Swap(0)) }

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed.Store(true)
	c.forgive()
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // It is the connection's.
}

// RemoteAddr implements net.Conn.
func (c *counted) RemoteAddr() net.Addr { return countedAddr{c.Conn.RemoteAddr(), c} }

type countedAddr struct {
	net.Addr
	connection *counted
}
