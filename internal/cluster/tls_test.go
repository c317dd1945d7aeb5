package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
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

// authority signs the certificates of servers.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.certificate, a.key = sign(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// config is that of a server at a host.
func (a *authority) config(t *testing.T, host string) *tls.Config {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	c, key := sign(t, a, template)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool, MinVersion: tls.VersionTLS13,
	}
}

// sign signs a template by an authority, or by itself.
func sign(t *testing.T, by *authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c, key
}

func TestAClusterWithTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	servers := newServers(t, 3)
	for _, s := range servers {
		s.tls = a.config(t, "127.0.0.1")
		s.start(t)
	}
	voters(t, 3, servers...)
	learn(t, "m", 2, servers...)
	haveAll(t, map[string]uint64{"m": 2}, servers...)
}

func stream(t *testing.T, config *tls.Config) *consensus.Stream {
	t.Helper()
	s, err := consensus.Listen(listen(t), config, func(error) {})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
	})
	return s
}

// reaches reports whether a connection of a kind arrives.
func reaches(t *testing.T, from, to *consensus.Stream, k consensus.Kind) bool {
	t.Helper()
	return arrives(t, to.Listener(k), func(ctx context.Context, address string) (net.Conn, error) { return from.Dial(ctx, k, address) })
}

// reachesGroup reports whether a connection of the log of a group arrives.
func reachesGroup(t *testing.T, s *consensus.Stream, group uint32) bool {
	t.Helper()
	l := s.Group(group, "a")
	defer func() {
		assert.NoError(t, l.Close())
	}()
	return arrives(t, l, func(ctx context.Context, address string) (net.Conn, error) {
		return s.DialGroup(ctx, group, "a", address)
	})
}

func arrives(t *testing.T, l net.Listener, dial func(ctx context.Context, address string) (net.Conn, error)) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := dial(ctx, l.Addr().String())
	if err != nil {
		return false
	}
	defer func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Log(err) // The other side may have closed it.
		}
	}()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return false
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	// A server that rejects the certificate of a client says so after the handshake, by closing.
	rejected := make(chan struct{})
	go func() {
		defer close(rejected)
		for {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				return
			}
		}
	}()
	select {
	case c := <-accepted:
		got := make([]byte, 5)
		_, err := io.ReadFull(c, got)
		return errors.Join(err, c.Close()) == nil && string(got) == "hello"
	case <-rejected:
		return false
	}
}

func TestTheClusterPortTellsKindsApart(t *testing.T) {
	s := stream(t, nil)
	for _, k := range []consensus.Kind{consensus.Members, consensus.Forwarded} {
		assert.True(t, reaches(t, s, s, k), "no connection of the kind %q", k)
	}
	for _, group := range []uint32{0, 1, 1000, 1} { // A closed log opens again.
		assert.True(t, reachesGroup(t, s, group), "no connection of the log of group %d", group)
	}
	address := s.Listener(consensus.Members).Addr().String()
	_, err := s.DialGroup(t.Context(), 7, "a", address)
	assert.ErrorIs(t, err, io.EOF, "a log that is not open here")
	other := s.Group(7, "b")
	_, err = s.DialGroup(t.Context(), 7, "a", address)
	assert.ErrorIs(t, err, consensus.ErrOtherMember, "the log of another member")
	assert.NoError(t, other.Close())
}

func TestTheClusterPortRejectsStrangers(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	to := stream(t, ours.config(t, "127.0.0.1"))
	assert.True(t, reaches(t, stream(t, ours.config(t, "client.example")), to, consensus.Members), "rejected a server of the cluster")
	stranger := theirs.config(t, "127.0.0.1")
	stranger.RootCAs = ours.config(t, "127.0.0.1").RootCAs
	nameless := ours.config(t, "127.0.0.1")
	nameless.Certificates = nil
	for name, config := range map[string]*tls.Config{"another authority": stranger, "no certificate": nameless, "no TLS": nil} {
		assert.False(t, reaches(t, stream(t, config), to, consensus.Members), "took a client with %s", name)
	}
	misnamed := stream(t, ours.config(t, "elsewhere.example"))
	assert.False(t, reaches(t, to, misnamed, consensus.Members), "a client took a server with another name")
}

// public is a listener that is not on a loopback address.
type public struct{ net.Listener }

func (public) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestNoPlaintextBeyondLoopback(t *testing.T) {
	l := listen(t)
	defer func() {
		assert.NoError(t, l.Close())
	}()
	_, err := consensus.Listen(public{l}, nil, func(error) {})
	assert.ErrorIs(t, err, consensus.ErrPlaintext, "listened")
}

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
	for range members {
		eventually(t, "a connection of a member arrives", func() bool { return reaches(t, from, to, consensus.Members) })
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
	eventually(t, "every server answers within a second, and its clock is as far ahead", func() bool {
		members := servers[0].node().Members(t.Context())
		return len(members) == 3 && !slices.ContainsFunc(members, func(m cluster.MemberStatus) bool {
			want := time.Duration(0)
			if m.Address == servers[2].address {
				want = 25 * time.Hour
			}
			return m.Err != nil || (m.Offset-want).Abs() > time.Second
		})
	})
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
