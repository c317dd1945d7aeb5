package main_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// network carries all connections of a test: between its servers, and from its clients to them.
// Each end has a number. Bytes from one end to another pass a gate, which delays or holds them.
// The gate delivers held bytes later, as after a real partition.
type network struct {
	t     *testing.T
	mu    sync.Mutex
	gates map[[2]int]*gate
	links []*link
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, gates: map[[2]int]*gate{}}
	t.Cleanup(func() {
		n.heal()
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range n.links {
			l.close()
		}
	})
	return n
}

// gate is that of the bytes from one end to another.
func (n *network) gate(from, to int) *gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.gates[[2]int{from, to}]
	if g == nil {
		g = &gate{opened: make(chan struct{})}
		close(g.opened)
		n.gates[[2]int{from, to}] = g
	}
	return g
}

// link returns the address at which an end reaches the address of another.
func (n *network) link(from, to int, address string) string {
	n.t.Helper()
	listener, err := new(net.ListenConfig).Listen(n.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	l := &link{listener: listener, to: address, forth: n.gate(from, to), back: n.gate(to, from), ended: make(chan struct{})}
	l.running.Go(l.accept)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, l)
	return listener.Addr().String()
}

// all changes every gate that a condition chooses.
func (n *network) all(chosen func(from, to int) bool, change func(*gate)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ends, g := range n.gates {
		if chosen(ends[0], ends[1]) {
			change(g)
		}
	}
}

// heal opens every gate, and ends every delay and every bound of the rate.
func (n *network) heal() {
	n.all(func(int, int) bool { return true }, func(g *gate) {
		g.set(false, 0)
		g.limit(0)
	})
}

// gate delays or holds bytes of one direction.
type gate struct {
	mu     sync.Mutex
	shut   bool
	delay  time.Duration
	opened chan struct{} // Closed while the gate is open.
	// rate bounds the bytes a second of all connections together, unless 0. The last byte passes at free.
	rate int
	free time.Time
}

// queued is the time of the bytes that a gate with a rate takes ahead, as the queue of a router does.
const queued = 50 * time.Millisecond

// limit bounds the bytes a second.
func (g *gate) limit(rate int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rate = rate
}

// reserve returns when n bytes have passed a gate with a rate, and how long the sender must wait before it sends more.
func (g *gate) reserve(now time.Time, n int) (due time.Time, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rate == 0 {
		return now, 0
	}
	if g.free.Before(now) {
		g.free = now
	}
	g.free = g.free.Add(time.Duration(n) * time.Second / time.Duration(g.rate))
	return g.free, g.free.Sub(now) - queued
}

func (g *gate) set(shut bool, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = delay
	switch {
	case shut && !g.shut:
		g.opened = make(chan struct{})
	case !shut && g.shut:
		close(g.opened)
	}
	g.shut = shut
}

func (g *gate) state() (delay time.Duration, opened chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.delay, g.opened
}

// link accepts connections at its own address and continues them to another.
type link struct {
	listener    net.Listener
	to          string
	forth, back *gate
	running     sync.WaitGroup
	ended       chan struct{}
}

func (l *link) close() {
	close(l.ended)
	_ = l.listener.Close() // Its goroutine ends with it.
	l.running.Wait()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.carry(near) })
	}
}

// carry continues one connection. Whoever dials through a shut gate hears nothing until it opens.
func (l *link) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	for _, g := range []*gate{l.forth, l.back} {
		if _, opened := g.state(); !l.wait(opened) {
			return
		}
	}
	far, err := new(net.Dialer).Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	var ways sync.WaitGroup
	stop := make(chan struct{})
	ways.Go(func() { l.pass(near, far, l.forth) })
	ways.Go(func() { l.pass(far, near, l.back) })
	go func() {
		ways.Wait()
		close(stop)
	}()
	select {
	case <-stop:
	case <-l.ended:
		_ = errors.Join(near.Close(), far.Close()) // Both ways end.
		<-stop
	}
}

func (l *link) wait(opened chan struct{}) bool {
	select {
	case <-opened:
		return true
	case <-l.ended:
		return false
	}
}

// chunk is bytes, and when they are due.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pass copies one direction. The reader goes on while bytes are delayed.
func (l *link) pass(from, to net.Conn, g *gate) {
	const chunks, size = 256, 16 << 10
	queue := make(chan chunk, chunks)
	var writer sync.WaitGroup
	writer.Go(func() {
		broken := false
		for c := range queue { // After an error the rest is dropped, so that the reader ends.
			broken = broken || !l.deliver(to, c, g)
		}
		if half, ok := to.(*net.TCPConn); ok && !broken {
			_ = half.CloseWrite() // The other side may have gone.
			return
		}
		_ = errors.Join(from.Close(), to.Close())
	})
	for {
		b := make([]byte, size)
		n, err := from.Read(b)
		if n > 0 {
			delay, _ := g.state()
			due, wait := g.reserve(time.Now(), n)
			queue <- chunk{b[:n], due.Add(delay)}
			if wait > 0 {
				time.Sleep(wait) // The sender waits for its share of the rate.
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) { // A reset: nothing more of either direction counts.
				_ = to.Close()
			}
			break
		}
	}
	close(queue)
	writer.Wait()
}

func (l *link) deliver(to net.Conn, c chunk, g *gate) bool {
	if wait := time.Until(c.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ended:
			return false
		}
	}
	if _, opened := g.state(); !l.wait(opened) {
		return false
	}
	_, err := to.Write(c.bytes)
	return err == nil
}
