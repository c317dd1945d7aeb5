package consensus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Kind is the purpose of a connection to a cluster port. The dialer sends the kind as the first byte.
type Kind byte

// The kinds of connections.
const (
	// Raft carries the log.
	Raft Kind = 'r'
	// Members carries the calls among members.
	Members Kind = 'm'
	// Forwarded carries the calls of clients that another server forwards.
	Forwarded Kind = 'f'
)

// ErrPlaintext says that a cluster port without TLS is not on a loopback address.
var ErrPlaintext = errors.New("cluster: without TLS, servers connect over loopback addresses only")

const (
	// The dialer of an accepted connection sends the kind within handshakeTimeout.
	handshakeTimeout = 5 * time.Second
	backlog          = 16
)

// Stream is the cluster port of a server, one port for connections of every kind. With TLS both sides of a connection
// show a certificate of the same authority, and the dialer compares the name in the server's certificate with the
// address.
type Stream struct {
	listener net.Listener
	tls      *tls.Config
	kinds    map[Kind]*port
	dial     Dialer
	log      func(error)

	// conns are the open accepted connections. background counts a goroutine for each.
	mu struct {
		sync.Mutex
		closed bool
		conns  map[net.Conn]struct{}
	}
	background sync.WaitGroup
}

// Dialer opens a connection, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// DialBy replaces the operating system's dialer, unless d is nil. The caller calls DialBy before the first Dial.
func (s *Stream) DialBy(d Dialer) {
	if d != nil {
		s.dial = d
	}
}

// Listen opens the cluster port over a listener, which Close closes. A nil config is plaintext. The
// stream reports to failed the errors of single connections.
func Listen(listener net.Listener, config *tls.Config, failed func(error)) (*Stream, error) {
	s := &Stream{listener: listener, kinds: map[Kind]*port{}, dial: new(net.Dialer).DialContext, log: failed}
	if config == nil && !isLoopback(listener.Addr()) {
		return nil, fmt.Errorf("%w: %s", ErrPlaintext, listener.Addr())
	}
	if config != nil {
		s.tls = config.Clone()
		s.tls.MinVersion = tls.VersionTLS13
		s.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.mu.conns = map[net.Conn]struct{}{}
	for _, k := range []Kind{Raft, Members, Forwarded} {
		s.kinds[k] = &port{addr: listener.Addr(), accepted: make(chan net.Conn, backlog), closed: make(chan struct{})}
	}
	s.background.Go(s.accept)
	return s, nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Listener accepts the connections of a kind.
func (s *Stream) Listener(k Kind) net.Listener { return s.kinds[k] }

// Dial connects to the cluster port of another server.
func (s *Stream) Dial(ctx context.Context, k Kind, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	out, err := s.greet(ctx, k, conn, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: connect to %s: %w", address, err), conn.Close())
	}
	return out, nil
}

func (s *Stream) greet(ctx context.Context, k Kind, conn net.Conn, address string) (net.Conn, error) {
	if s.tls == nil && !isLoopback(conn.RemoteAddr()) {
		return nil, ErrPlaintext
	}
	if s.tls != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config := s.tls.Clone()
		config.ServerName = host
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write([]byte{byte(k)}); err != nil {
		return nil, err
	}
	return conn, conn.SetWriteDeadline(time.Time{})
}

// accept accepts connections until the listener closes.
func (s *Stream) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.log(fmt.Errorf("cluster: accept: %w", err))
			}
			var temporary interface{ Timeout() bool }
			if errors.As(err, &temporary) && temporary.Timeout() {
				continue
			}
			return
		}
		if !s.add(conn) {
			return
		}
		s.background.Go(func() { s.route(conn) })
	}
}

// route gives a connection to the port of its kind.
func (s *Stream) route(conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	k, secure, err := s.receive(ctx, conn)
	if err != nil {
		s.log(errors.Join(fmt.Errorf("cluster: connection from %s: %w", conn.RemoteAddr(), err), s.drop(conn)))
		return
	}
	p := s.kinds[k]
	select {
	case p.accepted <- &tracked{Conn: secure, drop: func() error { return s.forget(conn, secure) }}:
	case <-p.closed:
		if err := s.drop(conn); err != nil {
			s.log(fmt.Errorf("cluster: close a connection: %w", err))
		}
	}
}

func (s *Stream) receive(ctx context.Context, conn net.Conn) (Kind, net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, nil, err
	}
	out := conn
	if s.tls != nil {
		secure := tls.Server(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return 0, nil, err
		}
		out = secure
	}
	first := make([]byte, 1)
	if _, err := out.Read(first); err != nil {
		return 0, nil, err
	}
	if s.kinds[Kind(first[0])] == nil {
		return 0, nil, fmt.Errorf("unknown kind %q", first)
	}
	return Kind(first[0]), out, conn.SetDeadline(time.Time{})
}

func (s *Stream) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		_ = conn.Close() // Nobody waits for it.
		return false
	}
	s.mu.conns[conn] = struct{}{}
	return true
}

func (s *Stream) drop(conn net.Conn) error { return s.forget(conn, conn) }

// forget closes the outer layer of a connection, and removes the connection from the table.
func (s *Stream) forget(conn, outer net.Conn) error {
	s.mu.Lock()
	delete(s.mu.conns, conn)
	s.mu.Unlock()
	return outer.Close()
}

// Close closes the port and every accepted connection, and joins the goroutines of the stream.
func (s *Stream) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	conns := s.mu.conns
	s.mu.conns = map[net.Conn]struct{}{}
	s.mu.Unlock()
	err := s.listener.Close()
	for conn := range conns {
		_ = conn.Close() // The other side sees the end in any case.
	}
	for _, p := range s.kinds {
		err = errors.Join(err, p.Close())
	}
	s.background.Wait()
	return err
}

// tracked is an accepted connection that leaves the stream's table when it closes.
type tracked struct {
	net.Conn
	drop func() error
}

func (c *tracked) Close() error { return c.drop() }

// port accepts the connections of one kind.
type port struct {
	addr     net.Addr
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *port) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *port) Addr() net.Addr { return p.addr }

// layer is the stream as raft sees it.
type layer struct {
	net.Listener
	stream *Stream
	mu     struct {
		sync.Mutex
		aborted bool
		dialed  map[net.Conn]struct{}
	}
}

func newLayer(s *Stream) *layer {
	l := &layer{Listener: s.Listener(Raft), stream: s}
	l.mu.dialed = map[net.Conn]struct{}{}
	return l
}

// Dial implements raft.StreamLayer.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := l.stream.Dial(ctx, Raft, string(address))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.aborted {
		return nil, errors.Join(ErrClosed, conn.Close())
	}
	l.mu.dialed[conn] = struct{}{}
	return &tracked{Conn: conn, drop: func() error { return l.forget(conn) }}, nil
}

func (l *layer) forget(conn net.Conn) error {
	l.mu.Lock()
	delete(l.mu.dialed, conn)
	l.mu.Unlock()
	return conn.Close()
}

// abort closes the connections of requests to other servers, because raft waits for these requests before it ends.
func (l *layer) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.aborted = true
	for conn := range l.mu.dialed {
		_ = conn.Close() // The request fails in any case.
	}
}
