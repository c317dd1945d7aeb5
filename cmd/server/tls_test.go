package main_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/testca"
)

// hosts is a certificate for the addresses of a test.
func hosts(names ...string) testca.Leaf {
	return testca.Leaf{Name: "server", Hosts: append(names, "127.0.0.1", "localhost")}
}

// secured launches a server with a certificate of servers. Its clients have certificates of
// clients, if it is there.
func secured(t *testing.T, servers, clients *testca.CA, leaf testca.Leaf) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	certificate, key := servers.Files(t, dir, "server", leaf)
	flags := []string{"--tls-cert", certificate, "--tls-key", key}
	if clients != nil {
		flags = append(flags, "--tls-client-ca", testca.Write(t, dir, "clients.crt", clients.PEM))
	}
	p = launch(t, filepath.Join(dir, "data"), flags...)
	p.http = strings.Replace(p.http, "http:", "https:", 1)
	return p, dir
}

// overGRPC asks for the health, and overHTTP for readiness; nil is plaintext.
func (p *process) overGRPC(t *testing.T, c *tls.Config) error {
	t.Helper()
	transport := insecure.NewCredentials()
	if c != nil {
		transport = credentials.NewTLS(c)
	}
	connection, err := grpc.NewClient(p.connection.Target(), grpc.WithTransportCredentials(transport))
	require.NoError(t, err)
	_, err = healthv1.NewHealthClient(connection).Check(t.Context(), &healthv1.HealthCheckRequest{})
	return errors.Join(err, connection.Close())
}

func (p *process) overHTTP(t *testing.T, c *tls.Config) error {
	t.Helper()
	url := p.http
	if c == nil {
		url = strings.Replace(url, "https:", "http:", 1)
	}
	answer, err := p.get(t, c, url+"/readyz")
	if err == nil && answer != "ready\n" {
		return errors.New(answer)
	}
	return err
}

// get asks by HTTP/2.
func (*process) get(t *testing.T, c *tls.Config, url string) (string, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	assert.True(t, err != nil || c == nil || response.ProtoMajor == 2, "%s is answered by %s", url, response.Proto)
	return string(text), err
}

// Both ports let the same clients in and reject the same.
func TestTLSOnBothPorts(t *testing.T) {
	servers, clients := testca.New(t, "servers"), testca.New(t, "clients")
	past := testca.Leaf{Name: "late", From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)}
	expired := hosts()
	expired.From, expired.Until = past.From, past.Until
	mutual, dir := secured(t, servers, clients, hosts("hindsight.example"))
	simple, _ := secured(t, servers, nil, hosts())
	late, _ := secured(t, servers, nil, expired)
	trusts := func(a *testca.CA, own ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: a.Pool(), Certificates: own, MinVersion: tls.VersionTLS12}
	}
	alice := clients.Pair(t, testca.Leaf{Name: "alice"})
	named := func(name string) *tls.Config {
		c := trusts(servers, alice)
		c.ServerName = name
		return c
	}
	old := trusts(servers, alice)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, c := range map[string]struct {
		server *process
		client *tls.Config
		ok     bool
	}{
		"mTLS":                  {mutual, trusts(servers, alice), true},
		"TLS":                   {simple, trusts(servers), true},
		"another name":          {mutual, named("hindsight.example"), true},
		"wrong host":            {mutual, named("wrong.example"), false},
		"wrong CA":              {mutual, trusts(clients, alice), false},
		"expired server":        {late, trusts(servers), false},
		"expired client":        {mutual, trusts(servers, clients.Pair(t, past)), false},
		"no client certificate": {mutual, trusts(servers), false},
		"client of other CA":    {mutual, trusts(servers, servers.Pair(t, testca.Leaf{Name: "alice"})), false},
		"TLS 1.1":               {mutual, old, false},
		"plaintext":             {simple, nil, false},
		"plaintext to mTLS":     {mutual, nil, false},
	} {
		err := c.server.overGRPC(t, c.client)
		assert.Equal(t, c.ok, (err == nil), "%v %v", name, err)
		err = c.server.overHTTP(t, c.client)
		assert.Equal(t, c.ok, (err == nil), "%v %v", name, err)
	}

	// The gateway reaches the server within the process, unary calls and streams.
	own := must(client.Dial(mutual.connection.Target(), client.WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(trusts(servers, alice))))))(t)
	defer func() { _ = own.Close() }()
	must(own.Models().CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: &hindsightv1.ModelSpec{Dimension: 1}}))(t)
	text, err := mutual.get(t, trusts(servers, alice), mutual.http+"/v1/models/m")
	assert.True(t, err == nil && strings.Contains(text, `"id":"m"`), "JSON: %s, %v", text, err)
	text, err = mutual.get(t, trusts(servers, alice), mutual.http+"/v1/models/m:export")
	assert.True(t, err == nil && len(text) >= 100, "export: %q, %v", text, err)
	text, err = mutual.get(t, trusts(servers, alice), mutual.http+"/metrics")
	assert.True(t, err == nil && strings.Contains(text, "\nhindsight_tls_reload_failures_total "), "metrics: %v", err)
	for _, page := range []string{"heap?debug=1", "goroutine", "profile?seconds=1", "trace?seconds=0"} {
		text, err := simple.get(t, trusts(servers), simple.http+"/debug/pprof/"+page)
		assert.True(t, err == nil && text != "" && !strings.Contains(text, `"error"`), "profile %s: %s, %v", page, text, err)
	}

	// The healthcheck needs no certificate.
	secure := []string{"--tls-cert", filepath.Join(dir, "server.crt"), "--tls-key", filepath.Join(dir, "server.key")}
	required := append([]string{"--tls-client-ca", filepath.Join(dir, "clients.crt")}, secure...)
	for _, c := range []struct {
		server *process
		flags  []string
		ok     bool
	}{
		{mutual, required, true},
		{simple, secure, true},
		{late, secure, true},
		{simple, required, false},
		{mutual, nil, false},
		{simple, nil, false},
	} {
		arguments := append([]string{"healthcheck", "--grpc-address", c.server.connection.Target()}, c.flags...)
		out, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput()
		assert.Equal(t, c.ok, (err == nil), "%v %v %v", c.flags, err, string(out))
	}
	mutual.kill(t)
	arguments := append([]string{"healthcheck", "--grpc-address", mutual.connection.Target()}, required...)
	out, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput()
	assert.Error(t, err, "a server that is gone is healthy: %s", out)
}

// A server that cannot read its certificate says so and does not start.
func TestTLSThatCannotStart(t *testing.T) {
	a, dir := testca.New(t, "ca"), t.TempDir()
	certificate, _ := a.Files(t, dir, "one", hosts())
	_, key := a.Files(t, dir, "two", hosts())
	for want, flags := range map[string][]string{
		"TLS: " + certificate + " and " + key + ": tls: private key does not match public key": {"--tls-cert", certificate, "--tls-key", key},
		"TLS: open " + filepath.Join(dir, "none"):                                              {"--tls-cert", filepath.Join(dir, "none"), "--tls-key", key},
		"want the file of the key, because tls-cert is set":                                    {"--tls-cert", certificate},
	} {
		flags = append(flags, "--data-dir", filepath.Join(dir, "data"), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
		out, err := exec.CommandContext(t.Context(), binary, flags...).CombinedOutput()
		assert.True(t, err != nil && strings.Contains(string(out), want), "%v: %s, want %s", err, out, want)
	}
}

// rotation is load on a server whose certificates change.
type rotation struct {
	*process
	dir     string
	servers *testca.CA
	// acknowledged counts observations, retried the calls that were sent again.
	acknowledged, retried atomic.Int64
}

// grpcLoad observes until stop is closed.
func (r *rotation) grpcLoad(t *testing.T, name string, stop <-chan struct{}) {
	t.Helper()
	file := func(name string) string { return filepath.Join(r.dir, name) }
	c, err := client.Dial(r.connection.Target(),
		client.WithTLS(client.TLS{CA: file("servers.crt"), Cert: file("client.crt"), Key: file("client.key")}),
		client.WithRetry(client.Retry{Max: 20, OnRetry: func(error, time.Duration) { r.retried.Add(1) }}))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		o, err := c.Model("m").Observe(t.Context(), &hindsightv1.ObserveRequest{
			ObservationId: name + "-" + strconv.Itoa(n), Features: []float64{float64(n % 7), 1}, Target: client.Label(float64(n % 5)),
		})
		if err != nil || o.GetSequence() == 0 {
			t.Errorf("observation %d of %s: %v", n, name, err)
			return
		}
		r.acknowledged.Add(1)
	}
}

// httpLoad is grpcLoad over HTTP. It sends a call without an answer again itself.
func (r *rotation) httpLoad(t *testing.T, name string, stop <-chan struct{}) {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: r.servers.Pool(), MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(r.dir, "client.crt"), filepath.Join(r.dir, "client.key"))
			return &pair, err
		},
	}}
	defer transport.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		body := fmt.Sprintf(`{"features": [%d, 1], "label": %d, "observation_id": "%s-%d"}`, n%7, n%5, name, n)
		for try := 0; ; try++ {
			err := post(t.Context(), &http.Client{Transport: transport}, r.http+"/v1/models/m:observe", body)
			if err == nil {
				break
			}
			r.retried.Add(1)
			if try == 20 {
				t.Errorf("observation %d of %s: %v", n, name, err)
				return
			}
		}
		r.acknowledged.Add(1)
	}
}

func post(ctx context.Context, c *http.Client, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

// until makes handshakes until the server has taken so many changes.
func (r *rotation) until(t *testing.T, own tls.Certificate, reloads int) {
	t.Helper()
	// The log has the certificate of the start too.
	for r.logged(t, `"msg":"certificate"`, 0) < 1+reloads {
		_, err := r.get(t, &tls.Config{RootCAs: r.servers.Pool(), Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, r.http+"/metrics")
		require.NoError(t, err)
	}
}

// idle is a connection that a request was answered on. It reads for patience at most.
func (r *rotation) idle(t *testing.T, own tls.Certificate) net.Conn {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{
		RootCAs: r.servers.Pool(), Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
	}}
	c := must(dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.http, "https://")))(t)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response := must(http.ReadResponse(bufio.NewReader(c), nil))(t)
	must(io.Copy(io.Discard, response.Body))(t)
	return c
}

// The server's certificate, the clients' and the CA of the clients change under
// load. No observation is lost, none is learned twice, and no call fails.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	r := &rotation{servers: testca.New(t, "servers")}
	old, next := testca.New(t, "old clients"), testca.New(t, "next clients")
	r.process, r.dir = secured(t, r.servers, old, hosts())
	testca.Write(t, r.dir, "servers.crt", r.servers.PEM)
	old.Files(t, r.dir, "client", testca.Leaf{Name: "client"})
	files := client.TLS{CA: filepath.Join(r.dir, "servers.crt"), Cert: filepath.Join(r.dir, "client.crt"), Key: filepath.Join(r.dir, "client.key")}
	control := must(client.Dial(r.connection.Target(), client.WithTLS(files)))(t)
	defer func() { _ = control.Close() }()
	if _, err := control.Models().CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: &hindsightv1.ModelSpec{
		Dimension: 2, Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}},
	}}); err != nil {
		t.Fatal(err)
	}
	idle := r.idle(t, old.Pair(t, testca.Leaf{Name: "idle"}))
	stop := make(chan struct{})
	var load sync.WaitGroup
	for n := range 2 {
		load.Go(func() { r.grpcLoad(t, fmt.Sprint("grpc", n), stop) })
		load.Go(func() { r.httpLoad(t, fmt.Sprint("http", n), stop) })
	}
	end := sync.OnceFunc(func() { close(stop); load.Wait() })
	defer end()

	// Both CAs are trusted, and the server has another certificate.
	testca.Write(t, r.dir, "clients.crt", append(bytes.Clone(old.PEM), next.PEM...))
	r.servers.Files(t, r.dir, "server", hosts())
	r.until(t, old.Pair(t, testca.Leaf{Name: "watcher"}), 1)
	// The clients have other certificates, and then the old CA goes.
	next.Files(t, r.dir, "client", testca.Leaf{Name: "client"})
	testca.Write(t, r.dir, "clients.crt", next.PEM)
	r.until(t, next.Pair(t, testca.Leaf{Name: "watcher"}), 2)
	before := r.acknowledged.Load()
	for r.acknowledged.Load() < before+20 && !t.Failed() {
		r.until(t, next.Pair(t, testca.Leaf{Name: "watcher"}), 2)
	}
	end()
	stats, err := control.Models().GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	if err != nil { // The connection had the old certificate.
		stats, err = control.Models().GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	}
	require.NoError(t, err)
	got, want := int64(stats.GetStats().GetObservations()), r.acknowledged.Load()
	assert.Equal(t, want, got, "observations are learned are acknowledged")
	_, err = idle.Read(make([]byte, 1))
	assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "a connection of the old CA is open: %v", err)
	t.Logf("%d observations, %d calls were sent again", r.acknowledged.Load(), r.retried.Load())
}
