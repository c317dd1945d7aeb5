package consensus

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Kind is the purpose of a connection to a cluster port. The dialer sends the kind as the first byte. For the log of a
// group, the dialer then sends the four bytes of the group's number, and the length and the text of the member's id.
// The member answers with the length and the text of its id, and closes the connection if the ids differ.
type Kind byte

// The kinds of connections.
const (
	// Members carries the calls among members.
	Members Kind = 'm'
	// Forwarded carries the calls of clients that another server forwards.
	Forwarded Kind = 'f'

	// The log of a group.
	log Kind = 'g'
)

// ErrOtherMember says that the server at the address of a member has another id. Such a server has lost its directory: the server
// must neither vote nor acknowledge entries as the member.
var ErrOtherMember = errors.New("cluster: the server at this address is another member")

// ErrPlaintext says that a cluster port without TLS is not on a loopback address.
var ErrPlaintext = errors.New("cluster: without TLS, servers connect over loopback addresses only")

const (
	// The dialer of an accepted connection sends the kind within handshakeTimeout.
	handshakeTimeout = 5 * time.Second
	backlog          = 16
	// The length of an id is one byte of a greeting.
	maxID = 255
	// The pause after an error of Accept doubles from minAcceptPause to maxAcceptPause.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Stream is the cluster port of a server, one port for connections of every kind. With TLS both sides of a connection
// show a certificate of the same CA, and the dialer compares the name in the server's certificate with the
// address.
type Stream struct {
	listener net.Listener
	tls      *tls.Config
	kinds    map[Kind]*port
	dial     Dialer
	failed   func(error)
	// greetings are the accepted connections without a complete greeting.
	greetings greetings
	// rejection is the error of the last Accept. The timer recovered removes the error after accept has stopped to fail.
	rejection atomic.Pointer[error]
	recovered *time.Timer
	closed    chan struct{}
	closeOnce sync.Once

	// groups accept the connections of the open logs, by the number of the group.
	mu struct {
		sync.Mutex
		groups map[uint32]*port
	}
	// accepted are the open accepted connections. background counts a goroutine for each.
	accepted   connections
	background sync.WaitGroup
}

type connections struct {
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// add returns false, and closes the connection, after close.
func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // Nobody waits for it.
		return false
	}
	if c.open == nil {
		c.open = map[net.Conn]struct{}{}
	}
	c.open[conn] = struct{}{}
	return true
}

// drop removes a connection, and closes its outer layer.
func (c *connections) drop(conn, outer net.Conn) error {
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	return outer.Close()
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close() // The other side sees the end in any case.
	}
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
	s := &Stream{listener: listener, kinds: map[Kind]*port{}, dial: new(net.Dialer).DialContext, failed: failed, closed: make(chan struct{})}
	if config == nil && !isLoopback(listener.Addr()) {
		return nil, fmt.Errorf("%w: %s", ErrPlaintext, listener.Addr())
	}
	if config != nil {
		s.tls = config.Clone()
		s.tls.MinVersion = tls.VersionTLS13
		s.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.greetings.left = make(chan struct{}, 1)
	s.recovered = time.AfterFunc(2*maxAcceptPause, func() { s.rejection.Store(nil) })
	s.mu.groups = map[uint32]*port{}
	for _, k := range []Kind{Members, Forwarded} {
		s.kinds[k] = newPort(listener)
	}
	s.background.Go(s.accept)
	return s, nil
}

// Group opens the listener of the connections of a group's log, for the member with an id. One log of a group is open at
// a time.
func (s *Stream) Group(number uint32, id string) net.Listener {
	p := newPort(s.listener)
	p.id = id
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.groups[number] = p
	return groupPort{p, s, number}
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Listener accepts the connections of a kind.
func (s *Stream) Listener(k Kind) net.Listener { return s.kinds[k] }

// Dial connects to the cluster port of another server, for a kind.
func (s *Stream) Dial(ctx context.Context, k Kind, address string) (net.Conn, error) {
	return s.connect(ctx, []byte{byte(k)}, address)
}

// DialGroup connects to the log of a group at the member with an id.
func (s *Stream) DialGroup(ctx context.Context, group uint32, id, address string) (net.Conn, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("cluster: connect to %s: the id of a member has %d bytes, want at most %d", address, len(id), maxID)
	}
	greeting := binary.BigEndian.AppendUint32([]byte{byte(log)}, group)
	conn, err := s.connect(ctx, append(append(greeting, byte(len(id))), id...), address)
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, conn, id); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: connect to %s: %w", address, err), conn.Close())
	}
	return conn, nil
}

// expect reads the id of the member at the other side.
func expect(ctx context.Context, conn net.Conn, want string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	got, err := readID(conn)
	switch {
	case !stop():
		return context.Cause(ctx)
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("%w: got %s, want %s", ErrOtherMember, got, want)
	}
	return nil
}

func readID(from io.Reader) (string, error) {
	text := make([]byte, maxID)
	if _, err := io.ReadFull(from, text[:1]); err != nil {
		return "", err
	}
	text = text[:text[0]]
	_, err := io.ReadFull(from, text)
	return string(text), err
}

func (s *Stream) connect(ctx context.Context, greeting []byte, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	out, err := s.greet(ctx, greeting, conn, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: connect to %s: %w", address, err), conn.Close())
	}
	return out, nil
}

func (s *Stream) greet(ctx context.Context, greeting []byte, conn net.Conn, address string) (net.Conn, error) {
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
	if _, err := conn.Write(greeting); err != nil {
		return nil, err
	}
	return conn, conn.SetWriteDeadline(time.Time{})
}

// accept accepts connections until the listener closes. After another error, as without free descriptors, accept tries
// again after a growing pause.
func (s *Stream) accept() {
	pause := time.Duration(0)
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			err = fmt.Errorf("cluster: accept: %w", err)
			s.rejection.Store(&err)
			s.failed(err)
			s.recovered.Reset(2 * maxAcceptPause)
			pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
			select {
			case <-time.After(pause):
				continue
			case <-s.closed:
				return
			}
		}
		pause = 0
		s.rejection.Store(nil)
		if !s.accepted.add(conn) || !s.greetings.add(conn, s.closed) {
			return
		}
		s.background.Go(func() { s.route(conn) })
	}
}

// Accepts returns the error of Accept while the port cannot accept connections, as without free descriptors.
func (s *Stream) Accepts() error {
	if err := s.rejection.Load(); err != nil {
		return *err
	}
	return nil
}

// route gives a connection to the port of its kind.
func (s *Stream) route(conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	p, secure, err := s.receive(ctx, conn)
	s.greetings.end(conn)
	if err != nil {
		s.failed(errors.Join(fmt.Errorf("cluster: connection from %s: %w", conn.RemoteAddr(), err), s.accepted.drop(conn, conn)))
		return
	}
	if p == nil { // The log of the group is not open. The dialer tries again.
		_ = s.accepted.drop(conn, conn)
		return
	}
	select {
	case p.accepted <- &tracked{Conn: secure, drop: func() error { return s.accepted.drop(conn, secure) }}:
	case <-p.closed:
		if err := s.accepted.drop(conn, conn); err != nil {
			s.failed(fmt.Errorf("cluster: close a connection: %w", err))
		}
	}
}

// receive reads the greeting of a connection, and returns the connection's port.
func (s *Stream) receive(ctx context.Context, conn net.Conn) (*port, net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, nil, err
	}
	out := conn
	if s.tls != nil {
		secure := tls.Server(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, nil, err
		}
		out = secure
	}
	greeting := make([]byte, 1+4)
	if _, err := io.ReadFull(out, greeting[:1]); err != nil {
		return nil, nil, err
	}
	kind := Kind(greeting[0])
	p := s.kinds[kind]
	switch {
	case kind == log:
		var err error
		if p, err = s.receiveMember(out, greeting[1:]); p == nil || err != nil {
			return nil, nil, err
		}
	case p == nil:
		return nil, nil, fmt.Errorf("unknown kind %q", greeting[:1])
	}
	return p, out, conn.SetDeadline(time.Time{})
}

// receiveMember reads which member the dialer means, and answers with the id of this member. The port is nil if no log
// of the group is open.
func (s *Stream) receiveMember(conn net.Conn, number []byte) (*port, error) {
	if _, err := io.ReadFull(conn, number); err != nil {
		return nil, err
	}
	want, err := readID(conn)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := s.mu.groups[binary.BigEndian.Uint32(number)]
	s.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	if _, err := conn.Write(append([]byte{byte(len(p.id))}, p.id...)); err != nil {
		return nil, err
	}
	if want != p.id {
		return nil, fmt.Errorf("%w: got %s, want %s", ErrOtherMember, p.id, want)
	}
	return p, nil
}

// Close closes the port and every accepted connection, and joins the goroutines of the stream.
func (s *Stream) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	s.mu.Lock()
	groups := s.mu.groups
	s.mu.groups = map[uint32]*port{}
	s.mu.Unlock()
	err := s.listener.Close()
	s.accepted.close()
	for _, p := range s.kinds {
		p.close()
	}
	for _, p := range groups {
		p.close()
	}
	s.background.Wait()
	s.recovered.Stop()
	return err
}

// tracked is an accepted connection that leaves the stream's table when it closes.
type tracked struct {
	net.Conn
	drop func() error
}

func (c *tracked) Close() error { return c.drop() }

// port accepts the connections of one kind, or of the log of one group.
type port struct {
	addr     net.Addr
	id       string
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func newPort(l net.Listener) *port {
	return &port{addr: l.Addr(), accepted: make(chan net.Conn, backlog), closed: make(chan struct{})}
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *port) close() { p.once.Do(func() { close(p.closed) }) }

func (p *port) Close() error {
	p.close()
	return nil
}

func (p *port) Addr() net.Addr { return p.addr }

// groupPort leaves the stream's table of groups when it closes, so that the log of the group can open again.
type groupPort struct {
	*port
	stream *Stream
	number uint32
}

func (p groupPort) Close() error {
	p.close()
	p.stream.mu.Lock()
	if p.stream.mu.groups[p.number] == p.port {
		delete(p.stream.mu.groups, p.number)
	}
	p.stream.mu.Unlock()
	for {
		select {
		case conn := <-p.accepted:
			_ = conn.Close() // Nobody accepts it any more.
		default:
			return nil
		}
	}
}

// layer is the stream as the raft of one group sees it.
type layer struct {
	net.Listener
	stream *Stream
	group  uint32
	// dialed are the connections of requests to other servers, and dialing ends with end.
	dialed  connections
	dialing context.Context //nolint:containedctx // The library passes none.
	end     context.CancelFunc
}

func newLayer(s *Stream, group uint32, id string) *layer {
	l := &layer{Listener: s.Group(group, id), stream: s, group: group}
	l.dialing, l.end = context.WithCancel(context.Background())
	return l
}

// abort ends the requests to other servers, because raft waits for them before it ends. A server that hangs answers none.
func (l *layer) abort() {
	l.end()
	l.dialed.close()
}

// Dial implements raft.StreamLayer, for an address that target returns.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.dialing, timeout)
	defer cancel()
	id, at, _ := strings.Cut(string(address), targetSeparator)
	conn, err := l.stream.DialGroup(ctx, l.group, id, at)
	if err != nil {
		return nil, err
	}
	if !l.dialed.add(conn) {
		return nil, ErrClosed
	}
	return &requests{Conn: &tracked{Conn: conn, drop: func() error { return l.dialed.drop(conn, conn) }}}, nil
}

// requests is a connection whose deadline grows with the bytes written since the deadline was set. The library gives
// every request rpcTimeout, whatever its size. One goroutine at a time uses the connection.
type requests struct {
	net.Conn
	deadline time.Time
}

func (c *requests) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *requests) Write(p []byte) (int, error) {
	if !c.deadline.IsZero() {
		if err := c.SetDeadline(c.deadline.Add(transferTime(len(p)))); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
