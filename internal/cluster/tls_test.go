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
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
