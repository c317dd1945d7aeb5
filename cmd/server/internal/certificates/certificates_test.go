package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/cmd/internal/testca"
	"hindsight/cmd/server/internal/certificates"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server echoes what comes over TLS.
type server struct {
	*certificates.Keeper
	dir     string
	address string
	log     *observer.ObservedLogs
	clock   clock
	// taken has a value for each set of files that was taken.
	taken chan struct{}
	// failed has the error of each handshake, nil for those that were done.
	failed chan error
}

// clock is set by a test.
type clock struct {
	sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.Lock()
	defer c.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.Lock()
	defer c.Unlock()
	c.now = now
}

var host = testca.Leaf{Name: "server", Hosts: []string{"127.0.0.1", "hindsight.example"}}

// serve serves with the pair of a until the test ends. Clients need certificates of b, if
// it is there.
func serve(t *testing.T, a, b *testca.CA, leaf testca.Leaf) *server {
	t.Helper()
	s := &server{dir: t.TempDir(), taken: make(chan struct{}, 100), failed: make(chan error, 100)}
	s.clock.set(time.Now())
	core, log := observer.New(zap.InfoLevel)
	s.log = log
	var files certificates.Files
	files.Certificate, files.Key = a.Files(t, s.dir, "server", leaf)
	if b != nil {
		files.ClientCA = testca.Write(t, s.dir, "ca.crt", b.PEM)
	}
	taken := zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "certificate" {
			s.taken <- struct{}{}
		}
		return nil
	})
	keeper := must(certificates.Open(certificates.Options{Files: files, Log: zap.New(core, taken), Now: s.clock.read}))(t)
	s.Keeper = keeper
	var listen net.ListenConfig
	inner := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s.address = inner.Addr().String()
	l := tls.NewListener(keeper.Listener(inner), keeper.Config("echo"))
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			ended.Go(func() { s.echo(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		ended.Wait()
	})
	return s
}

func (s *server) echo(c net.Conn) {
	defer func() { _ = c.Close() }()
	secured, ok := c.(*tls.Conn)
	if !ok {
		s.failed <- errors.New("no TLS")
		return
	}
	err := secured.HandshakeContext(context.Background())
	s.failed <- err
	if err == nil {
		_, _ = io.Copy(c, c)
	}
}

// dial connects, and makes sure that the server takes the connection.
func (s *server) dial(t *testing.T, c *tls.Config) (net.Conn, error) {
	t.Helper()
	dialer := tls.Dialer{Config: c}
	connection, err := dialer.DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection, ping(connection)
}

// ping sends a byte and waits for its echo.
func ping(c net.Conn) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// serial is the serial number of the certificate that the server shows.
func (s *server) serial(t *testing.T, c *tls.Config) string {
	t.Helper()
	connection := must(s.dial(t, c))(t)
	secured, ok := connection.(*tls.Conn)
	require.True(t, ok, "no TLS")
	return secured.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func trusts(a *testca.CA, own ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), Certificates: own, MinVersion: tls.VersionTLS12, NextProtos: []string{"echo"}}
}

// Whom the handshake rejects, on which side, and what the error says.
func TestHandshakes(t *testing.T) {
	a, b := testca.New(t, "servers"), testca.New(t, "clients")
	good := b.Pair(t, testca.Leaf{Name: "client"})
	long := time.Now().Add(-time.Hour)
	past := testca.Leaf{Name: "client", From: long.Add(-time.Hour), Until: long}
	for name, c := range map[string]struct {
		leaf           testca.Leaf
		client         *tls.Config
		client1, serve string // of the client's error and of the server's
	}{
		"good":                       {host, trusts(a, good), "", ""},
		"wrong CA of server":         {host, trusts(b, good), "signed by unknown authority", "bad certificate"},
		"wrong host":                 {testca.Leaf{Hosts: []string{"other.example"}}, trusts(a, good), "cannot validate certificate for 127.0.0.1", "bad certificate"},
		"expired server":             {testca.Leaf{Hosts: host.Hosts, From: past.From, Until: past.Until}, trusts(a, good), "certificate has expired", "bad certificate"},
		"expired client":             {host, trusts(a, b.Pair(t, past)), "expired certificate", "certificate has expired"},
		"client not yet valid":       {host, trusts(a, b.Pair(t, testca.Leaf{From: time.Now().Add(time.Hour), Until: time.Now().Add(2 * time.Hour)})), "expired certificate", "not yet valid"},
		"no client certificate":      {host, trusts(a), "certificate required", "didn't provide a certificate"},
		"client of other CA":         {host, forced(trusts(a), a.Pair(t, testca.Leaf{Name: "client"})), "unknown certificate authority", "signed by unknown authority"},
		"a server's as the client's": {host, trusts(a, b.Pair(t, host)), "bad certificate", "incompatible key usage"},
		"TLS 1.1":                    {host, &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "protocol version", "unsupported versions"},
		"TLS 1.2":                    {host, &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, a, b, c.leaf)
			_, err := s.dial(t, c.client)
			compare(t, "client", err, c.client1)
			compare(t, "server", <-s.failed, c.serve)
		})
	}
}

// forced shows a certificate also to a server that does not want it.
func forced(c *tls.Config, own tls.Certificate) *tls.Config {
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	return c
}

func compare(t *testing.T, side string, err error, want string) {
	t.Helper()
	assert.True(t, (want == "") == (err == nil) && (err == nil || strings.Contains(err.Error(), want)), "%s: %v, want %q", side, err, want)
}

// A connection that says no word of TLS is rejected.
func TestPlaintext(t *testing.T) {
	a := testca.New(t, "servers")
	s := serve(t, a, nil, host)
	var dialer net.Dialer
	c := must(dialer.DialContext(t.Context(), "tcp", s.address))(t)
	must(c.Write([]byte("GET / HTTP/1.1\r\n\r\n")))(t)
	compare(t, "server", <-s.failed, "does not look like a TLS handshake")
	_, _ = io.ReadAll(c)
	_ = c.Close()
}

// Look twice takes what the files hold, and once does not: somebody may be writing them.
func TestReload(t *testing.T) {
	a := testca.New(t, "servers")
	s := serve(t, a, nil, host)
	first := s.serial(t, trusts(a))
	open := must(s.dial(t, trusts(a)))(t)
	s.Look()
	s.Look()
	c, k := a.Issue(t, host)
	testca.Write(t, s.dir, "server.crt", c)
	s.Look() // The key is not there yet.
	testca.Write(t, s.dir, "server.key", k)
	s.Look()
	if got := s.serial(t, trusts(a)); got != first || s.Stats().ReloadFailures != 0 {
		t.Errorf("files that are being written were read: %+v", s.Stats())
	}
	s.Look()
	second := s.serial(t, trusts(a))
	stats := s.Stats()
	assert.True(t, second != first && stats.ReloadFailures == 0, "after the change: serial %s, before %s, %+v", second, first, stats)
	assert.NoError(t, ping(open))

	expired, expiredKey := a.Issue(t, testca.Leaf{Hosts: host.Hosts, From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)})
	_, otherKey := a.Issue(t, host)
	for n, bad := range []struct {
		name             string
		certificate, key []byte
		say              string
	}{
		{"another key", c, otherKey, "private key does not match public key"},
		{"no PEM", []byte("hello"), otherKey, "failed to find any PEM data"},
		{"half a key", c, k[:len(k)/2], "failed to find any PEM data in key input"},
		{"expired", expired, expiredKey, "the certificate expired at "},
		{"a directory", nil, k, "no such file"},
	} {
		testca.Write(t, s.dir, "server.key", bad.key)
		if bad.certificate == nil {
			require.NoError(t, os.Remove(filepath.Join(s.dir, "server.crt")))
		} else {
			testca.Write(t, s.dir, "server.crt", bad.certificate)
		}
		for range 5 {
			s.Look()
		}
		assert.Equal(t, second, s.serial(t, trusts(a)), bad.name)
		stats := s.Stats()
		assert.Equal(t, uint64(n)+1, stats.ReloadFailures, "%v %v", bad.name, stats)
		logged := s.log.FilterLevelExact(zapcore.ErrorLevel).All()
		require.Equal(t, n+1, len(logged), bad.name)
		text := fmt.Sprint(logged[n].Message, logged[n].ContextMap())
		assert.Contains(t, text, bad.say, bad.name)
		assert.False(t, strings.Contains(text, strings.Split(string(k), "\n")[1]), "%s: the log has the key", bad.name)
	}
	// What is mended is taken.
	testca.Write(t, s.dir, "server.crt", c)
	testca.Write(t, s.dir, "server.key", k)
	s.Look()
	s.Look()
	assert.Equal(t, 3, s.log.FilterMessage("certificate").Len())
}

// Kubernetes exchanges a link to a directory.
func TestReloadOfLinks(t *testing.T) {
	a := testca.New(t, "servers")
	dir := t.TempDir()
	version := func(name string) {
		t.Helper()
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		a.Files(t, filepath.Join(dir, name), "tls", host)
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
	version("..1")
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	core, log := observer.New(zap.InfoLevel)
	k := must(certificates.Open(certificates.Options{
		Files: certificates.Files{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
		Log:   zap.New(core), Now: time.Now,
	}))(t)
	version("..2")
	k.Look()
	k.Look()
	if n := log.FilterMessage("certificate").Len(); n != 2 || k.Stats().ReloadFailures != 0 {
		t.Errorf("%d certificates were taken, want 2; %+v", n, k.Stats())
	}
}

// A client whose CA is gone loses its connection and does not come back, not by a
// ticket of before either. While both CAs are there, both clients stay.
func TestClientCARotation(t *testing.T) {
	a, old, next := testca.New(t, "servers"), testca.New(t, "old"), testca.New(t, "next")
	s := serve(t, a, old, host)
	resuming := trusts(a, old.Pair(t, testca.Leaf{Name: "one"}))
	resuming.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	other := trusts(a, next.Pair(t, testca.Leaf{Name: "two"}))
	before := must(s.dial(t, resuming))(t)
	replace := func(text []byte) {
		testca.Write(t, s.dir, "ca.crt", text)
		s.Look()
		s.Look()
	}
	replace(bytes.Join([][]byte{old.PEM, next.PEM}, nil))
	after := must(s.dial(t, other))(t)
	assert.NoError(t, ping(before))
	replace(next.PEM)
	assert.Error(t, ping(before), "a client without a CA keeps its connection")
	assert.NoError(t, ping(after))
	_, err := s.dial(t, resuming)
	assert.Error(t, err, "a client without a CA came back")
	replace(append(bytes.Clone(next.PEM), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))
	stats := s.Stats()
	assert.EqualValues(t, 1, stats.ReloadFailures, stats)
	assert.NoError(t, ping(after))
}

// A connection does not outlive the certificate of its client.
func TestClientExpires(t *testing.T) {
	a, b := testca.New(t, "servers"), testca.New(t, "clients")
	s := serve(t, a, b, host)
	short := must(s.dial(t, trusts(a, b.Pair(t, testca.Leaf{Name: "short", Until: time.Now().Add(time.Minute)}))))(t)
	long := must(s.dial(t, trusts(a, b.Pair(t, testca.Leaf{Name: "long"}))))(t)
	s.Look()
	assert.NoError(t, errors.Join(ping(short), ping(long)))
	s.clock.set(time.Now().Add(2 * time.Minute))
	s.Look()
	assert.Error(t, ping(short), "the connection outlives the certificate")
	assert.NoError(t, ping(long))
}

// A client with a certificate is verified also if it need not have one.
func TestOptional(t *testing.T) {
	a, b := testca.New(t, "servers"), testca.New(t, "clients")
	dir := t.TempDir()
	files := certificates.Files{ClientCA: testca.Write(t, dir, "ca.crt", b.PEM), Optional: true}
	files.Certificate, files.Key = a.Files(t, dir, "server", host)
	k := must(certificates.Open(certificates.Options{Files: files, Log: zap.NewNop(), Now: time.Now}))(t)
	for name, c := range map[string]struct {
		client *tls.Config
		chains int
		ok     bool
	}{
		"none":  {trusts(a), 0, true},
		"good":  {trusts(a, b.Pair(t, testca.Leaf{Name: "client"})), 1, true},
		"other": {forced(trusts(a), a.Pair(t, testca.Leaf{Name: "client"})), 0, false},
	} {
		var listen net.ListenConfig
		inner, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l := k.Listener(inner)
		var dialed sync.WaitGroup
		dialed.Go(func() {
			connection, err := (&tls.Dialer{Config: c.client}).DialContext(t.Context(), "tcp", inner.Addr().String())
			if err == nil {
				_, _ = io.ReadAll(connection)
				_ = connection.Close()
			}
		})
		accepted := must(l.Accept())(t)
		secured := tls.Server(accepted, k.Config("echo"))
		err = secured.HandshakeContext(t.Context())
		chains := len(secured.ConnectionState().VerifiedChains)
		assert.True(t, (err == nil) == c.ok && chains == c.chains, "%s: %d chains, %v", name, chains, err)
		_, _ = secured.Close(), l.Close()
		dialed.Wait()
	}
}

func TestOpenRejects(t *testing.T) {
	a, dir := testca.New(t, "servers"), t.TempDir()
	certificate, key := a.Files(t, dir, "server", host)
	for want, f := range map[string]certificates.Files{
		"no such file":                    {Certificate: filepath.Join(dir, "none"), Key: key},
		"found a certificate rather than": {Certificate: certificate, Key: certificate},
		"block 1 is a PRIVATE KEY":        {Certificate: certificate, Key: key, ClientCA: key},
		"it has no certificate in PEM":    {Certificate: certificate, Key: key, ClientCA: testca.Write(t, dir, "empty", nil)},
		"is a directory":                  {Certificate: certificate, Key: key, ClientCA: dir},
	} {
		_, err := certificates.Open(certificates.Options{Files: f, Log: zap.NewNop(), Now: time.Now})
		compare(t, "Open", err, want)
		assert.Error(t, err, f)
	}
}

// Run takes a change by itself and ends with its context.
func TestRun(t *testing.T) {
	a := testca.New(t, "servers")
	s := serve(t, a, nil, host)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { s.Run(ctx) })
	<-s.taken
	a.Files(t, s.dir, "server", host)
	<-s.taken
	cancel()
	ended.Wait()
}

// FuzzClientCA looks for a file that is taken though it has no certificate.
func FuzzClientCA(f *testing.F) {
	a := testca.New(f, "clients")
	dir := f.TempDir()
	certificate, key := a.Files(f, dir, "server", host)
	f.Add(a.PEM)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := certificates.Open(certificates.Options{
			Files: certificates.Files{Certificate: certificate, Key: key, ClientCA: testca.Write(t, t.TempDir(), "ca.crt", text)},
			Log:   zap.NewNop(), Now: time.Now,
		})
		assert.True(t, err != nil || x509.NewCertPool().AppendCertsFromPEM(text), "no certificate is taken for one")
	})
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}
