// Package tracing exports the spans of the server to a collector of OpenTelemetry, over
// OTLP and gRPC. It is off unless the caller or the environment names an endpoint. The other
// variables of OpenTelemetry apply too, for instance OTEL_TRACES_SAMPLER,
// OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// serviceName is the service of the spans, unless OTEL_SERVICE_NAME names another.
const serviceName = "hindsight-server"

// Options of tracing.
type Options struct {
	// Endpoint is the URL of the collector, for instance http://localhost:4317; empty means
	// the value of the environment.
	Endpoint string
	// Env is os.LookupEnv in production. The libraries read the environment of the process.
	Env     func(string) (string, bool)
	Version string
	Log     *zap.Logger
}

// Tracing makes spans and exports them. A nil Tracing is off.
type Tracing struct {
	provider *sdk.TracerProvider
}

// Open starts tracing. It returns nil without an endpoint. It does not wait for the collector.
func Open(ctx context.Context, o Options) (*Tracing, error) {
	endpoint, ok, err := o.endpoint()
	if err != nil || !ok {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(o.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("tracing: what the spans are of: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing: %s: %w", endpoint, err)
	}
	o.Log.Info("traces are exported", zap.String("endpoint", endpoint))
	// The environment sets the sampler, the queue and the limits.
	return &Tracing{sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(logged{exporter, o.Log}))}, nil
}

func (o *Options) endpoint() (endpoint string, on bool, err error) {
	env := func(name string) string {
		text, _ := o.Env(name)
		return strings.TrimSpace(text)
	}
	endpoint = cmp.Or(o.Endpoint, env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return "", false, nil
	}
	if protocol := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "grpc"); protocol != "grpc" {
		return "", false, fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_PROTOCOL is %q, want grpc", protocol)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return "", false, errors.New("tracing: the endpoint is not a URL such as http://localhost:4317 or https://collector:4317 without a user")
	}
	return endpoint, true, nil
}

// Provider returns the provider of spans, nil when tracing is off.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil // A nil *sdk.TracerProvider would be a non-nil interface.
	}
	return t.provider
}

// Close exports the queued spans, until the context ends.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: close: %w", err)
	}
	return nil
}

// logged logs the errors of an exporter. The library would print errors to standard error.
type logged struct {
	sdk.SpanExporter
	log *zap.Logger
}

func (e logged) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("spans were not exported", zap.Int("spans", len(spans)), zap.Error(err))
	}
	return nil
}
