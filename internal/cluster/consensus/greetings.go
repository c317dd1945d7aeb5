package consensus

import (
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// The port keeps at most maxGreetings connections without a complete greeting.
	maxGreetings = 64
	// A connection has at least minGreeting for its greeting. So the port accepts at most maxGreetings connections of
	// strangers in minGreeting, and the others wait in the queue of the operating system.
	minGreeting = 200 * time.Millisecond
)

// greetings are the accepted connections without a complete greeting, in the order of their arrival. A stranger without
// a certificate completes no greeting, so that strangers keep no more descriptors and goroutines than these.
//
//	len(mu.arrivals) <= maxGreetings
type greetings struct {
	mu struct {
		sync.Mutex
		arrivals []stranger
	}
	// left has a token if a greeting may have ended.
	left chan struct{}
}

// stranger is a connection without a complete greeting. The channel old delivers after minGreeting.
type stranger struct {
	conn net.Conn
	old  <-chan time.Time
}

// add adds a connection. If the connections are too many, add waits until a greeting ends or the oldest connection has had
// minGreeting, and then closes the oldest. It returns false if stop closes before.
func (g *greetings) add(conn net.Conn, stop <-chan struct{}) bool {
	for {
		g.mu.Lock()
		if len(g.mu.arrivals) < maxGreetings {
			g.mu.arrivals = append(g.mu.arrivals, stranger{conn, time.After(minGreeting)})
			g.mu.Unlock()
			return true
		}
		oldest := g.mu.arrivals[0]
		g.mu.Unlock()
		select {
		case <-oldest.old:
			g.end(oldest.conn)
			_ = oldest.conn.Close() // The goroutine that reads the greeting reports the end.
		case <-g.left:
		case <-stop:
			return false
		}
	}
}

func (g *greetings) end(conn net.Conn) {
	g.mu.Lock()
	g.mu.arrivals = slices.DeleteFunc(g.mu.arrivals, func(a stranger) bool { return a.conn == conn })
	g.mu.Unlock()
	select {
	case g.left <- struct{}{}:
	default:
	}
}
