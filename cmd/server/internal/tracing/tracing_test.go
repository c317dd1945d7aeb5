package tracing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hindsight/cmd/server/internal/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Tracing is on where an endpoint is given, and off where the environment says so.
func TestOpen(t *testing.T) {
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
			spans, err := tracing.Open(t.Context(), tracing.Options{
				Endpoint: c.endpoint, Version: "1", Log: zap.NewNop(),
				Env: func(name string) (string, bool) { text, ok := c.env[name]; return text, ok },
			})
			if c.err != "" {
				assert.True(t, err != nil && strings.Contains(err.Error(), c.err) && !strings.Contains(err.Error(), "secret"), "error %v, want %q", err, c.err)
				return
			}
			require.NoError(t, err)
			on := spans.Provider() != nil
			assert.True(t, on == c.on && (spans != nil) == c.on, "on: %v, want %v", on, c.on)
			limit, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			assert.NoError(t, spans.Close(limit))
		})
	}
}
