package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
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
	metrics   *grpcprom.ServerMetrics
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
	h := &host{metrics: grpcprom.NewServerMetrics()}
	options := rpc.Options{
		Groups: rpc.Single(e, nil), Log: zap.NewNop(), Metrics: h.metrics, MaxMessageBytes: 1 << 20, MaxBatchRows: 100,
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
func (h *host) start(tb testing.TB, server grpc.ClientConnInterface, settings ...func(*gateway.Options)) {
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

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}
