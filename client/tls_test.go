package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// signer is a CA, or a certificate of one. Its files are name.crt and name.key.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	crt, pem    string
}

// issue writes a certificate into a directory: for a server if it has hosts, for a client
// else, for a CA if by is nil.
func issue(t *testing.T, dir, name string, by *signer, until time.Time, hosts ...string) *signer {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	number := must(rand.Int(rand.Reader, big.NewInt(1<<62)))(t)
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	s := &signer{key: key, crt: filepath.Join(dir, name+".crt"), pem: filepath.Join(dir, name+".key")}
	if by == nil {
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		by = &signer{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &key.PublicKey, by.key)
	require.NoError(t, err)
	s.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	write(t, s.crt, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, s.pem, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// secured is a server that wants tokens, and remembers what came.
type secured struct {
	hindsightv1.UnimplementedModelServiceServer

	want string
	mu   struct {
		sync.Mutex
		got, peer string
	}
}

func (s *secured) ListModels(ctx context.Context, _ *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	got := strings.Join(incoming.Get("authorization"), "|")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.got = got
	if s.want != "" && got != "Bearer "+s.want {
		return nil, reject(codes.Unauthenticated, "TOKEN_INVALID")
	}
	return &hindsightv1.ListModelsResponse{}, nil
}

// listen serves until the test ends, and returns the address.
func (s *secured) listen(t *testing.T, c credentials.TransportCredentials) string {
	t.Helper()
	var listen net.ListenConfig
	l := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(grpc.Creds(c))
	hindsightv1.RegisterModelServiceServer(server, s)
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); ended.Wait() })
	return l.Addr().String()
}

// list makes a call.
func list(t *testing.T, address string, options ...client.Option) error {
	t.Helper()
	options = append([]client.Option{client.WithRetry(client.Retry{})}, options...)
	c, err := client.Dial(address, options...)
	if err != nil {
		return err
	}
	_, err = c.ListPage(t.Context(), &hindsightv1.ListModelsRequest{})
	return errors.Join(err, c.Close())
}

// speaks are the server's credentials.
func speaks(t *testing.T, s *signer, clients *signer) credentials.TransportCredentials {
	t.Helper()
	pair := must(tls.LoadX509KeyPair(s.crt, s.pem))(t)
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		c.ClientCAs.AddCert(clients.certificate)
	}
	return credentials.NewTLS(c)
}

// Each mistake says what to do.
func TestTLSAdvice(t *testing.T) {
	dir, soon, past := t.TempDir(), time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	ca, other := issue(t, dir, "ca", nil, soon), issue(t, dir, "other", nil, soon)
	host := issue(t, dir, "host", ca, soon, "127.0.0.1", "hindsight.example")
	alice, late := issue(t, dir, "alice", ca, soon), issue(t, dir, "late", ca, past)
	stranger := issue(t, dir, "stranger", other, soon)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	plain := (&secured{}).listen(t, insecure.NewCredentials())
	server := (&secured{}).listen(t, speaks(t, host, nil))
	mutual := (&secured{}).listen(t, speaks(t, host, ca))
	away := (&secured{}).listen(t, speaks(t, issue(t, dir, "away", ca, soon, "away.example"), nil))
	expired := (&secured{}).listen(t, speaks(t, issue(t, dir, "expired", ca, past, "127.0.0.1"), nil))
	for name, c := range map[string]struct {
		address string
		options []client.Option
		want    string // of the error; "" is none
	}{
		"TLS":                   {server, []client.Option{client.WithTLS(client.TLS{CA: ca.crt})}, ""},
		"mTLS":                  {mutual, []client.Option{client.WithTLS(client.TLS{CA: ca.crt, Cert: alice.crt, Key: alice.pem})}, ""},
		"another name":          {server, []client.Option{client.WithTLS(client.TLS{CA: ca.crt, ServerName: "hindsight.example"})}, ""},
		"wrong name":            {server, []client.Option{client.WithTLS(client.TLS{CA: ca.crt, ServerName: "x.example"})}, "or give that name as server name"},
		"wrong host":            {away, []client.Option{client.WithTLS(client.TLS{CA: ca.crt})}, "call the server by a name of the certificate"},
		"right name":            {away, []client.Option{client.WithTLS(client.TLS{CA: ca.crt, ServerName: "away.example"})}, ""},
		"plaintext to TLS":      {server, nil, "it may want TLS"},
		"TLS to plaintext":      {plain, []client.Option{client.WithTLS(client.TLS{CA: ca.crt})}, "the server does not speak TLS"},
		"gRPC to HTTP":          {web.Listener.Addr().String(), nil, "this is a port of HTTP: the server has another port for gRPC, 50051"},
		"wrong CA":              {server, []client.Option{client.WithTLS(client.TLS{CA: other.crt})}, "give its file as CA"},
		"the system's CAs":      {server, []client.Option{client.WithTLS(client.TLS{})}, "give its file as CA"},
		"expired server":        {expired, []client.Option{client.WithTLS(client.TLS{CA: ca.crt})}, "the server's certificate is not valid now"},
		"no client certificate": {mutual, []client.Option{client.WithTLS(client.TLS{CA: ca.crt})}, "give the files of a certificate and its key"},
		"no token":              {(&secured{want: "s3cret"}).listen(t, insecure.NewCredentials()), nil, "give a token"},
		"wrong token":           {(&secured{want: "s3cret"}).listen(t, insecure.NewCredentials()), []client.Option{client.WithToken(client.TokenText("guess"))}, "does not take the token"},
		"no file of a CA":       {server, []client.Option{client.WithTLS(client.TLS{CA: filepath.Join(dir, "none")})}, "TLS: CA: open "},
		"a CA that is none":     {server, []client.Option{client.WithTLS(client.TLS{CA: ca.pem})}, "ca.key has no certificate in PEM"},
		"a certificate alone":   {server, []client.Option{client.WithTLS(client.TLS{Cert: alice.crt})}, "want both or none"},
		"a key of another":      {server, []client.Option{client.WithTLS(client.TLS{Cert: alice.crt, Key: late.pem})}, "private key does not match public key"},
	} {
		t.Run(name, func(t *testing.T) {
			err := list(t, c.address, c.options...)
			assert.True(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)), "%v, want %q", err, c.want)
		})
	}
	// What the server rejects after the client's part of the handshake may reach the
	// client as the end of the connection alone.
	for name, bad := range map[string]*signer{"expired client": late, "client of another CA": stranger} {
		assert.ErrorIs(t, list(t, mutual, client.WithTLS(client.TLS{CA: ca.crt, Cert: bad.crt, Key: bad.pem})), client.ErrUnreachable, name)
	}
}

// A changed file is taken by the next connection.
func TestTLSFilesChange(t *testing.T) {
	dir, soon := t.TempDir(), time.Now().Add(time.Hour)
	ca, next := issue(t, dir, "ca", nil, soon), issue(t, dir, "next", nil, soon)
	server := (&secured{}).listen(t, speaks(t, issue(t, dir, "host", next, soon, "127.0.0.1"), next))
	alice := issue(t, dir, "alice", ca, soon)
	c, err := client.Dial(server, client.WithTLS(client.TLS{CA: ca.crt, Cert: alice.crt, Key: alice.pem}))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	once := c.With(client.Retry{})
	_, err = once.ListPage(t.Context(), &hindsightv1.ListModelsRequest{})
	require.Error(t, err, "the wrong CA is trusted")
	text, err := os.ReadFile(next.crt)
	require.NoError(t, err)
	write(t, ca.crt, string(text))
	issue(t, dir, "alice", next, soon)
	patient := c.With(client.Retry{Max: 20})
	_, err = patient.ListPage(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.NoError(t, err, "after the change")
}

// A token goes over TLS or to this machine, and nowhere else without being forced.
func TestTokenStaysOffTheWire(t *testing.T) {
	token := client.WithToken(client.TokenText("s3cret"))
	for address, local := range map[string]bool{
		"localhost": true, "127.0.0.1:7": true, "::1": true, "unix:/run/h.sock": true, "dns:///localhost:7": true, "127.1.2.3": true,
		"10.0.0.1": false, "hindsight.example:7": false, "dns:///hindsight.example": false, "dns://10.0.0.1/localhost": false,
		"localhost.example": false, "0.0.0.0:7": false,
	} {
		c, err := client.Dial(address, token)
		assert.Equal(t, local, (err == nil), "%v %v", address, err)
		assert.True(t, err == nil || !strings.Contains(err.Error(), "s3cret") && strings.Contains(err.Error(), "use TLS"), "%s: %v", address, err)
		if c != nil {
			_ = c.Close()
		}
		for _, more := range []client.Option{client.WithTLS(client.TLS{}), client.WithTokenInPlaintext()} {
			c, err := client.Dial(address, token, more)
			if err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			_ = c.Close()
		}
	}
}

func TestToken(t *testing.T) {
	s := &secured{want: "s3cret"}
	address := s.listen(t, insecure.NewCredentials())
	path := filepath.Join(t.TempDir(), "token")
	fromFile := client.WithToken(client.TokenFile(path))
	if err := list(t, address, fromFile); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "old\n")
	c, err := client.Dial(address, fromFile, client.WithRetry(client.Retry{}))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.ListPage(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.True(t, errors.Is(err, client.ErrUnauthenticated) && !strings.Contains(err.Error(), "old"), "the old token: %v", err)
	write(t, path, " s3cret\n")
	_, err = c.ListPage(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.NoError(t, err, "the new token")
	for _, bad := range []string{"", "a b", "a\nb", "ä"} {
		err := list(t, address, client.WithToken(client.TokenText(bad)))
		assert.True(t, err != nil && strings.Contains(err.Error(), "printable ASCII"), "token %q: %v", bad, err)
	}
}
