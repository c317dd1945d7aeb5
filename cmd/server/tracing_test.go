package main_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	server "hindsight/cmd/server"
	"hindsight/cmd/server/internal/config"
)

// collector takes spans over OTLP.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	url string
	mu  sync.Mutex
	// spans are by their traces. resource are the attributes of what they are of.
	spans    map[string][]*tracev1.Span
	resource map[string]string
}

func (c *collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			c.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId())
				c.spans[id] = append(c.spans[id], s)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func collect(t *testing.T) *collector {
	t.Helper()
	var listen net.ListenConfig
	listener := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	c := &collector{url: "http://" + listener.Addr().String(), spans: map[string][]*tracev1.Span{}, resource: map[string]string{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		assert.NoError(t, <-served)
	})
	return c
}

// tree are the spans of a trace as lines, each below the one that it is a child of, the
// first below that of the caller.
func (c *collector) tree(trace string) []string {
	spans := slices.Clone(c.spans[trace])
	slices.SortFunc(spans, func(a, b *tracev1.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	var lines []string
	var below func(id, indent string)
	below = func(id, indent string) {
		for _, s := range spans {
			if hex.EncodeToString(s.GetParentSpanId()) == id {
				lines = append(lines, indent+s.GetName())
				below(hex.EncodeToString(s.GetSpanId()), indent+"  ")
			}
		}
	}
	below(parent, "")
	return lines
}

// parent is the span of a caller.
const parent = "00f067aa0ba902b7"

// with is a context that carries a trace as another service's call does.
func with(ctx context.Context, trace string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+trace+"-"+parent+"-01")
}

// The spans of calls over gRPC and over JSON reach the collector, below the caller's, with the stages of an observation below them.
func TestTraces(t *testing.T) {
	trace := func(n int) string { return fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02x", n) }
	c := collect(t)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_SERVICE_NAME", "under-test")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off") // Only what the caller has sampled.
	p := launch(t, t.TempDir(), "--otlp-endpoint", c.url, "--log-level", "debug")
	p.create(t)
	must(p.predictor.Observe(with(t.Context(), trace(1)), observation(0)))(t)
	_, err := p.predictor.Predict(with(t.Context(), trace(2)), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})
	require.NoError(t, err)
	_, err = p.predictor.Predict(with(t.Context(), trace(3)), &hindsightv1.PredictRequest{Model: "none"})
	require.Error(t, err, "a model that is not there predicts")
	ask := func(method, url, body string, header ...string) string {
		t.Helper()
		r := must(http.NewRequestWithContext(t.Context(), method, p.http+url, strings.NewReader(body)))(t)
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		answer := must(http.DefaultClient.Do(r))(t)
		text, err := io.ReadAll(answer.Body)
		closeErr := answer.Body.Close()
		require.True(t, err == nil && closeErr == nil && answer.StatusCode == http.StatusOK, "%v %v %v %v", answer.Status, string(text), err, closeErr)
		return string(text)
	}
	ask(http.MethodPost, "/v1/models/m:observe", `{"features":[1,2],"label":3}`,
		"Content-Type", "application/json", "Traceparent", "00-"+trace(4)+"-"+parent+"-01")
	// Not sampled, so that there is no span.
	p.learn(t, 1, 5)

	families := p.scrape(t, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	traced := map[string]bool{}
	for _, name := range []string{"hindsight_observe_seconds", "hindsight_predict_seconds", "hindsight_commit_seconds", "grpc_server_handling_seconds"} {
		for _, m := range families[name].GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					traced[name] = traced[name] || l.GetName() == "trace_id" && strings.HasPrefix(l.GetValue(), "4bf92f3577b34da6a3ce929d0e0e47")
				}
			}
		}
		assert.True(t, traced[name], "%s has no exemplar", name)
	}
	text := ask(http.MethodGet, "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0")
	assert.True(t, strings.Contains(text, ` # {trace_id="4bf92f3577b34da6a3ce929d0e0e47`) && strings.HasSuffix(text, "# EOF\n"), "OpenMetrics has no exemplar")
	p.terminate(t)

	c.mu.Lock()
	defer c.mu.Unlock()
	const service = "hindsight.v1.PredictionService/"
	for id, want := range map[int][]string{
		1: {service + "Observe", "  queue", "  commit", "  learn"},
		2: {service + "Predict", "  remember"},
		3: {service + "Predict"},
		4: {service + "Observe", "  queue", "  commit", "  learn"},
	} {
		if got := c.tree(trace(id)); !slices.Equal(got, want) {
			t.Errorf("trace %d:\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	assert.Equal(t, 4, len(c.spans))
	assert.True(t, c.resource["service.name"] == "under-test" && c.resource["service.version"] != "", "the spans are of %v", c.resource)
	attributes := map[string]string{}
	for _, a := range c.spans[trace(3)][0].GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	if attributes["rpc.response.status_code"] != "NOT_FOUND" || attributes["hindsight.reason"] != "MODEL_NOT_FOUND" || attributes["hindsight.model"] != "none" {
		t.Errorf("attributes of a rejected call %v", attributes)
	}
}

// A collector that is not there costs spans and nothing else, and says so.
func TestTracesWithoutACollector(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	p := launch(t, t.TempDir())
	p.create(t)
	p.learn(t, 0, 10)
	p.logged(t, "spans were not exported", 1)
	p.terminate(t)
}

// logTo is a logger to a buffer, and what answers its level.
func logTo(stderr *bytes.Buffer) (*zap.Logger, http.Handler) {
	return server.NewLogger(config.Config{LogLevel: "info"}, stderr)
}

// The level can be read and set while the server runs, but by no page of another origin.
func TestLogLevel(t *testing.T) {
	var stderr bytes.Buffer
	log, level := logTo(&stderr)
	ask := func(method, kind, body string, header ...string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "/debug/loglevel", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		w := httptest.NewRecorder()
		level.ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		method, kind, body string
		header             []string
		code               int
		answer             string
	}{
		{http.MethodGet, "", "", nil, http.StatusOK, `{"level":"info"}`},
		{http.MethodPut, form, "level=debug", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "cross-origin"},
		{http.MethodPut, form, "level=loud", nil, http.StatusBadRequest, "loud"},
		{http.MethodPut, form, "level=" + strings.Repeat("x", 1<<11), nil, http.StatusBadRequest, ""},
		{http.MethodPost, form, "level=debug", nil, http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "", "", nil, http.StatusOK, `{"level":"info"}`},
		{http.MethodPut, form, "level=debug", nil, http.StatusOK, `{"level":"debug"}`},
		{http.MethodPut, "application/json", `{"level":"error"}`, nil, http.StatusOK, `{"level":"error"}`},
		{http.MethodPut, "application/json", `{"level":"debug"}`, nil, http.StatusOK, `{"level":"debug"}`},
	} {
		code, answer := ask(c.method, c.kind, c.body, c.header...)
		assert.True(t, code == c.code && strings.Contains(answer, c.answer), "%s %.30s: %d %s, want %d %s", c.method, c.body, code, answer, c.code, c.answer)
	}
	log.Debug("of the new level")
	code, answer := ask(http.MethodPut, form, "level=fatal")
	assert.Equal(t, http.StatusOK, code, "fatal %s", answer)
	log.Error("an error at the level fatal")
	log.Warn("a warning at the level fatal")
	text := stderr.String()
	assert.True(t, strings.Contains(text, "an error at the level fatal") && !strings.Contains(text, "a warning at the level fatal"), "at the level fatal the log is %s", text)
	text = stderr.String()
	assert.True(t, strings.Contains(text, "of the new level") && strings.Count(text, "log level changed") == 4, "the log is %s", text)
}

// Tracing is on where an endpoint is given, and off where the environment says so.
func TestTracesEndpoint(t *testing.T) {
	type env = map[string]string
	for name, c := range map[string]struct {
		endpoint string
		env      env
		on       bool
		err      string
	}{
		"nothing":             {},
		"an endpoint":         {endpoint: "http://127.0.0.1:1", on: true},
		"with TLS":            {endpoint: "https://collector:4317", on: true},
		"of the environment":  {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"of traces alone":     {env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"turned off":          {endpoint: "http://127.0.0.1:1", env: env{"OTEL_SDK_DISABLED": "TRUE"}},
		"no exporter":         {endpoint: "http://127.0.0.1:1", env: env{"OTEL_TRACES_EXPORTER": "none"}},
		"over HTTP":           {endpoint: "http://127.0.0.1:1", env: env{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, err: "want grpc"},
		"not a URL":           {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, err: "not a URL"},
		"a secret in the URL": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:secret@collector:4317"}, err: "without a user"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, err := server.TracesEndpoint(c.endpoint, func(name string) (string, bool) { text, ok := c.env[name]; return text, ok })
			if c.err != "" {
				assert.True(t, err != nil && strings.Contains(err.Error(), c.err) && !strings.Contains(err.Error(), "secret"), "error %v, want %q", err, c.err)
				return
			}
			assert.True(t, err == nil && (endpoint != "") == c.on, "endpoint %q, %v; on: want %v", endpoint, err, c.on)
		})
	}
}
