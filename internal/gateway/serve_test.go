package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type noTimings struct{}

func (noTimings) Predict(float64, string) {}
func (noTimings) Observe(float64, string) {}

// host is a gateway on a real listener, before a real server or one of a test.
type host struct {
	url     string
	client  *http.Client
	gateway *gateway.Gateway
	// predictor and models lead to the same server by gRPC over a socket.
	predictor hindsightv1.PredictionServiceClient
	models    hindsightv1.ModelServiceClient
	metrics   *metrics.Calls
}

func (h *host) callMetrics(kind, service, method string, codes []string) rpc.CallMetrics {
	return h.metrics.Method(kind, service, method, codes)
}

// listen is a listener on any port.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	return must(config.Listen(tb.Context(), "tcp", "127.0.0.1:0"))(tb)
}

// serve is a gateway before a real server with a store in memory.
func serve(tb testing.TB, settings ...func(*gateway.Options)) *host {
	tb.Helper()
	return serveBehind(tb, func(*rpc.Options) {}, settings...)
}

// serveBehind is serve before a server of other options.
func serveBehind(tb testing.TB, set func(*rpc.Options), settings ...func(*gateway.Options)) *host {
	tb.Helper()
	disk := must(store.Open("data", store.Options{FS: vfs.NewMem()}))(tb)
	var ids atomic.Int64
	e := must(engine.Open(tb.Context(), engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 10_000, PendingLimit: 10_000, PendingTotalLimit: 1_000_000, ModelMemory: 64 << 20},
			Store:  disk, Now: time.Now, Log: zap.NewNop(),
			NewID:          func() (string, error) { return fmt.Sprint("p-", ids.Add(1)), nil },
			SnapshotReplay: 10 * time.Millisecond, SnapshotInterval: time.Hour, SnapshotsKept: 2, LabelTTL: time.Hour,
		},
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {}, Durability: "sync",
		IDWindow: time.Hour, IDWindowMin: 1000, ModelLimit: 1000, Sweep: time.Hour, DeletedKept: time.Hour,
	}))(tb)
	h := &host{metrics: metrics.NewCalls()}
	options := rpc.Options{
		Groups: rpc.Single(e, nil), Log: zap.NewNop(), Metrics: h.callMetrics, MaxMessageBytes: 1 << 20, MaxBatchRows: 100,
	}
	set(&options)
	server := rpc.New(options)
	listener := listen(tb)
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // A test that makes no call may end first.
		}
		served <- err
	}()
	remote := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(tb)
	h.predictor, h.models = hindsightv1.NewPredictionServiceClient(remote), hindsightv1.NewModelServiceClient(remote)
	h.start(tb, server.Local(), settings...)
	tb.Cleanup(func() {
		h.gateway.Drain()
		server.Drain(context.Background())
		assert.NoError(tb, errors.Join(<-served, remote.Close(), e.Close(), disk.Close()))
	})
	return h
}

// start listens for HTTP, and ends with the test after what was set up later.
func (h *host) start(tb testing.TB, server gateway.Server, settings ...func(*gateway.Options)) {
	tb.Helper()
	options := gateway.Options{Server: server, Log: zap.NewNop(), Now: time.Now, MaxMessageBytes: 1 << 20}
	for _, set := range settings {
		set(&options)
	}
	var err error
	h.gateway, err = gateway.New(options)
	require.NoError(tb, err)
	listener := listen(tb)
	h.url = "http://" + listener.Addr().String()
	// A connection that answered an error lingers for half a second, which Close does not wait for.
	var connections sync.WaitGroup
	web := &http.Server{
		Handler: gateway.BoundBodies(h.gateway), ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed, http.StateHijacked:
				connections.Done()
			default:
			}
		},
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	h.client = &http.Client{Transport: transport}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		assert.NoError(tb, web.Close())
		assert.ErrorIs(tb, <-served, http.ErrServerClosed)
		connections.Wait()
	})
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	// json is the body, if it is JSON, with numbers as they are written.
	json map[string]any
}

// at is a member of a member of the body, nil when there is none. A number is an index.
func (a *answer) at(path ...any) any {
	var v any = a.json
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// number is a JSON number as it is written.
func number(text string) json.Number { return json.Number(text) }

// request makes a request with a body of JSON, or without one.
func (h *host) request(tb testing.TB, method, path, body string, headers ...string) *http.Request {
	tb.Helper()
	r := must(http.NewRequestWithContext(tb.Context(), method, h.url+path, strings.NewReader(body)))(tb)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return r
}

// call makes a request and reads the answer.
func (h *host) call(tb testing.TB, method, path, body string, headers ...string) *answer {
	tb.Helper()
	return h.do(tb, h.request(tb, method, path, body, headers...))
}

func (h *host) do(tb testing.TB, r *http.Request) *answer {
	tb.Helper()
	response, err := h.client.Do(r)
	require.NoError(tb, err)
	a := &answer{status: response.StatusCode, header: response.Header}
	a.body, err = io.ReadAll(response.Body)
	closeErr := response.Body.Close()
	require.True(tb, err == nil && closeErr == nil, "%v %v", err, closeErr)
	if a.header.Get("Content-Type") == "application/json" && r.Method != http.MethodHead {
		decoder := json.NewDecoder(bytes.NewReader(a.body))
		decoder.UseNumber()
		require.NoError(tb, decoder.Decode(&a.json), "%v %v %v", r.Method, r.URL, a.body)
	}
	return a
}

// want makes a request that is to succeed.
func (h *host) want(tb testing.TB, method, path, body string, headers ...string) *answer {
	tb.Helper()
	a := h.call(tb, method, path, body, headers...)
	require.EqualValues(tb, http.StatusOK, a.status, "%v %v %v", method, path, a.body)
	return a
}

// linear is the body that creates a linear model with two inputs.
func linear(id string) string {
	return `{"id":"` + id + `","spec":{"dimension":2,"linearAwv":{},"scaling":{"none":{}}}}`
}

// handled is how many calls of a method the server's metrics count.
func (h *host) handled(tb testing.TB, method string) float64 {
	tb.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(tb, registry.Register(h.metrics))
	families := must(registry.Gather())(tb)
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "grpc_server_handled_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["grpc_service"] == service && labels["grpc_method"] == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// dial connects to the gateway. The test closes the connection at its end.
func (h *host) dial(t *testing.T) net.Conn {
	t.Helper()
	c := must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://")))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

// A proxy that ends a request by its Content-Length takes the chunk behind for another request. So the server answers nothing
// on the connection after a chunked request.
func TestAChunkedRequestEndsItsConnection(t *testing.T) {
	const chunked, length, body = "Transfer-Encoding: chunked\r\n", "Content-Length: 4\r\n", "2\r\n{}\r\n0\r\n\r\n"
	h := serve(t)
	for _, c := range []struct {
		name, headers, body string
		ends                bool
	}{
		{"chunked", chunked, body, true},
		{"chunked, with a length", chunked + length, body, true},
		{"a length", "Content-Length: 2\r\n", "{}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := h.dial(t)
			one := "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + c.headers + "\r\n" + c.body
			must(io.WriteString(conn, one+one))(t)
			from, answers := bufio.NewReader(conn), 0
			for answers < 2 {
				r, err := http.ReadResponse(from, nil)
				if err != nil {
					break
				}
				must(io.Copy(io.Discard, r.Body))(t)
				assert.NoError(t, r.Body.Close())
				answers++
			}
			assert.Equal(t, c.ends, answers == 1, answers)
		})
	}
}

// A call is answered after the time that pages have, a page is not.
func TestCallsHaveLongerThanPages(t *testing.T) {
	h := serve(t)
	web := httptest.NewUnstartedServer(h.gateway)
	web.Config.WriteTimeout = time.Nanosecond
	web.Start()
	defer web.Close()
	h.url = web.URL
	h.want(t, http.MethodGet, "/v1/models", "")
	if response, err := h.client.Do(h.request(t, http.MethodGet, "/openapi.json", "")); err == nil {
		_ = response.Body.Close()
		t.Errorf("a page was answered: %d", response.StatusCode)
	}
}

// A call whose body has not come when the gateway drains is rejected at once, in a way that
// tells the client to send it to the next server.
func TestDrainEndsABodyOnItsWay(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	// The server answers 100 Continue once it reads the body.
	must(io.WriteString(c, "POST /v1/models HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"))(t)
	const proceed = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(proceed))
	_, err := io.ReadFull(c, got)
	require.True(t, err == nil && string(got) == proceed, "%q, %v", got, err)
	began := time.Now()
	h.gateway.Drain()
	took := time.Since(began)
	answer, err := io.ReadAll(c)
	// Without the drain, the server waits a minute for a body.
	assert.True(t, err == nil && strings.Contains(string(answer), "SHUTTING_DOWN") && took < time.Minute, "after %v: %s, %v", took, answer, err)
}

// A model goes out and comes in in pieces, larger than a message may be.
func TestExportAndImport(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", `{"id":"m","spec":{"dimension":600,"linearAwv":{},"scaling":{"none":{}}}}`)
	features := strings.TrimSuffix(strings.Repeat("0.5,", 600), ",")
	h.want(t, "POST", "/v1/models/m:predict", `{"features":[`+features+`],"predictionId":"p"}`)
	out := h.want(t, "GET", "/v1/models/m:export", "")
	require.GreaterOrEqual(t, len(out.body), int(1<<20), "%d bytes, want more than a message has", len(out.body))
	got := out.header.Get("Content-Disposition")
	assert.True(t, got == `attachment; filename="m.hindsight"` && out.header.Get("Content-Type") == "application/octet-stream", "header %v", out.header)
	const bytesType = "application/octet-stream"
	in := h.want(t, "POST", "/v1/models:import?id=n", string(out.body), "Content-Type", bytesType)
	assert.True(t, in.at("model", "id") == "n", "imported %s", in.body)
	a, b := h.want(t, "GET", "/v1/models/m/stats", ""), h.want(t, "GET", "/v1/models/n/stats", "")
	assert.True(t, a.at("stats", "stateDigest") == b.at("stats", "stateDigest") && b.at("stats", "pendingLabels") == "1", "statistics %s, want those of %s", b.body, a.body)
	other := h.want(t, "GET", "/v1/models/m:export?withoutIds=true", "")
	assert.Less(t, len(other.body), len(out.body), "%d bytes without ids, %d with", len(other.body), len(out.body))
}

// An import that is rejected, or whose time is over, is answered at once, also if its body does not come.
func TestRejectedImportWithoutABody(t *testing.T) {
	g := guard(t, who("read", auth.Read), who("admin", auth.Admin))
	for _, c := range []struct {
		token, want string
		length      int
	}{{"read", "403 Forbidden", 100}, {"read", "403 Forbidden", 1 << 20}, {"admin\r\nGrpc-Timeout: 20m", "504 Gateway Timeout", 100}} {
		connection := g.dial(t)
		must(fmt.Fprintf(connection, "POST /v1/models:import?id=n HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", c.token, c.length))(t)
		// The server would wait a minute for the body.
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(50*time.Second)))
		line, err := bufio.NewReader(connection).ReadString('\n')
		assert.True(t, err == nil && line == "HTTP/1.1 "+c.want+"\r\n", "%v: %q, %v", c, line, err)
	}
}

// An export that fails on its way is no whole answer, and one that fails before it is
// an error.
func TestExportThatFails(t *testing.T) {
	piece := make([]byte, 64<<10)
	for i := range piece {
		piece[i] = byte(rand.Uint32())
	}
	pieces := 0
	w := &watched{export: func(s grpc.ServerStreamingServer[hindsightv1.ExportModelResponse]) error {
		for range pieces {
			if err := s.Send(&hindsightv1.ExportModelResponse{Chunk: piece}); err != nil {
				return err
			}
		}
		return status.Error(codes.DataLoss, "corrupt")
	}}
	h := w.serve(t)
	a := h.call(t, "GET", "/v1/models/m:export", "")
	assert.True(t, a.status == 500 && a.at("error", "status") == "DATA_LOSS", "%d %s", a.status, a.body)
	pieces = 8
	response := must(h.client.Do(h.request(t, http.MethodGet, "/v1/models/m:export", "")))(t)
	defer func() { _ = response.Body.Close() }()
	_, err := io.ReadAll(response.Body)
	assert.Error(t, err, "a part was taken for the whole")
}

// A name that another may let point to this machine is rejected, whatever the page says of
// its origin; addresses, localhost and the hosts of named origins are not.
func TestLocalHosts(t *testing.T) {
	answered := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	origins := []string{"https://Console.example:8443"}
	for host, want := range map[string]int{
		"localhost:9464": http.StatusNoContent, "LOCALHOST": http.StatusNoContent, "localhost.:9464": http.StatusNoContent,
		"app.localhost:9464": http.StatusNoContent, "127.0.0.1:9464": http.StatusNoContent, "127.0.0.1": http.StatusNoContent,
		"[::1]:9464": http.StatusNoContent, "[::1]": http.StatusNoContent, "": http.StatusNoContent,
		"console.example": http.StatusNoContent, "CONSOLE.example:8443": http.StatusNoContent,
		"evil.example:9464": http.StatusForbidden, "evil.example": http.StatusForbidden, "notlocalhost": http.StatusForbidden,
		"localhost.evil.example:9464": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
		"127.1": http.StatusForbidden, "x.console.example": http.StatusForbidden, "localhost:9464:1": http.StatusForbidden,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", http.NoBody)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		w := httptest.NewRecorder()
		counted := ""
		gateway.LocalHosts(origins, func(reason string) { counted = reason }, answered).ServeHTTP(w, r)
		assert.True(t, w.Code == want && (want != http.StatusForbidden || strings.Contains(w.Body.String(), "CROSS_ORIGIN") && counted == "CROSS_ORIGIN"), "host %q: %d %s, want %d", host, w.Code, w.Body, want)
		w = httptest.NewRecorder()
		gateway.LocalHosts([]string{"*"}, nil, answered).ServeHTTP(w, r)
		assert.Equal(t, http.StatusNoContent, w.Code, "host %q with all origins", host)
	}
}

// The mask of an update is in the query, with either kind of names, or is what the body
// has.
func TestUpdateMask(t *testing.T) {
	w := &watched{updates: make(chan *hindsightv1.UpdateModelRequest, 1)}
	h := w.serve(t)
	const body = `{"etag":"e","displayName":"M","labels":{"cost_center":"x"},"labelTtl":"3s"}`
	for _, c := range []struct {
		query, body string
		want        []string
	}{
		{"?updateMask=displayName,labels.costCenter,labels.cost_center,maxPendingLabels", body, []string{"displayName", "labels.costCenter", "labels.cost_center", "maxPendingLabels"}},
		{"?update_mask=display_name,label_ttl&validateOnly=true", body, []string{"display_name", "label_ttl"}},
		{"?updateMask=*", body, []string{"*"}},
		{"?updateMask=colour", body, []string{"colour"}},
		{"", body, []string{"display_name", "label_ttl", "labels"}},
		{"", `{"max_pending_labels":7,"id":"m"}`, []string{"max_pending_labels"}},
		{"", `{}`, nil},
		{"", "", nil},
	} {
		h.want(t, "PATCH", "/v1/models/m"+c.query, c.body, "Content-Type", "application/json")
		got := <-w.updates
		assert.True(t, slices.Equal(got.GetUpdateMask().GetPaths(), c.want), "%s %s: mask %v, want %v", c.query, c.body, got.GetUpdateMask().GetPaths(), c.want)
		assert.True(t, got.GetModel().GetId() == "m" && (c.body != body || (got.GetModel().GetEtag() == "e" && got.GetModel().GetLabelTtl().GetSeconds() == 3)), "%s %s: %v", c.query, c.body, got)
	}
}
