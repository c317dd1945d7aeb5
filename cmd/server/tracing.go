package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
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

// openTracing exports the spans of calls to a collector of OpenTelemetry, over OTLP and gRPC. It does not wait for the collector.
func (s *server) openTracing(ctx context.Context) error {
	endpoint, err := tracesEndpoint(s.config.OTLPEndpoint, os.LookupEnv)
	if err != nil || endpoint == "" {
		return err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return fmt.Errorf("tracing: what the spans are of: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return fmt.Errorf("tracing: %s: %w", endpoint, err)
	}
	log := s.log.Named("tracing")
	log.Info("traces are exported", zap.String("endpoint", endpoint))
	// The environment sets the sampler, the queue and the limits.
	s.spans = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(logged{exporter, log}))
	return nil
}

// tracesEndpoint returns the URL of the collector, empty if tracing is off: without an endpoint in the settings and in the
// environment, or if the environment says so.
func tracesEndpoint(setting string, lookupEnv func(string) (string, bool)) (string, error) {
	env := func(name string) string {
		text, _ := lookupEnv(name)
		return strings.TrimSpace(text)
	}
	endpoint := cmp.Or(setting, env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return "", nil
	}
	if protocol := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "grpc"); protocol != "grpc" {
		return "", fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_PROTOCOL is %q, want grpc", protocol)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return "", errors.New("tracing: the endpoint is not a URL such as http://localhost:4317 or https://collector:4317 without a user")
	}
	return endpoint, nil
}

func (s *server) tracer() trace.TracerProvider {
	if s.spans == nil {
		return nil // A nil *sdk.TracerProvider would be a non-nil interface.
	}
	return s.spans
}

// closeTracing exports the last spans. Losing spans is no failure of the server.
func (s *server) closeTracing(ctx context.Context) {
	if s.spans == nil {
		return
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
	defer cancel()
	if err := s.spans.Shutdown(limit); err != nil {
		s.log.Warn("the last spans were not exported", zap.Error(err))
	}
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
