package rpc

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Attributes outside of OpenTelemetry's conventions.
const (
	modelKey  = attribute.Key("hindsight.model")
	reasonKey = attribute.Key("hindsight.reason")
)

// tracing makes a span of every call. It continues the caller's W3C trace. A nil tracing makes none.
type tracing struct {
	tracer trace.Tracer
	w3c    propagation.TraceContext
}

func newTracing(provider trace.TracerProvider) *tracing {
	if provider == nil {
		return nil
	}
	return &tracing{tracer: provider.Tracer("hindsight/internal/rpc", trace.WithSchemaURL(semconv.SchemaURL))}
}

// start begins the span of a call. The trace of a call from within the process is in its
// context, the parent of others in their headers.
func (t *tracing) start(ctx context.Context, method string) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		headers := propagation.MapCarrier{}
		for _, key := range t.w3c.Fields() {
			headers[key] = strings.Join(metadata.ValueFromIncomingContext(ctx, key), ",")
		}
		ctx = t.w3c.Extract(ctx, headers)
	}
	name := strings.TrimPrefix(method, "/")
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(name)))
}

func setModel(span trace.Span, request any) {
	if named, ok := request.(interface{ GetModel() string }); ok && span.IsRecording() {
		span.SetAttributes(modelKey.String(named.GetModel()))
	}
}

func end(span trace.Span, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	s := StatusOf(err)
	span.SetAttributes(semconv.RPCResponseStatusCode(codeName(s.Code())))
	if reason := reasonOf(s); reason != "" {
		span.SetAttributes(reasonKey.String(reason))
	}
	switch s.Code() {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		span.SetStatus(otelcodes.Error, s.Message())
		span.SetAttributes(semconv.ErrorTypeKey.String(codeName(s.Code())))
	default: // The others are the caller's.
	}
}

func (t *tracing) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, span := t.start(ctx, info.FullMethod)
	setModel(span, request)
	response, err := handle(ctx, request)
	end(span, err)
	return response, err
}

func (t *tracing) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, span := t.start(stream.Context(), info.FullMethod)
	err := handle(service, contextStream{stream, ctx})
	end(span, err)
	return err
}

type contextStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // It is what Context gives.
}

func (s contextStream) Context() context.Context { return s.ctx }

func traceFields(ctx context.Context) []zap.Field {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return nil
	}
	return []zap.Field{zap.Stringer("trace_id", s.TraceID()), zap.Stringer("span_id", s.SpanID())}
}

// codeName is the name of a code as the gRPC specification writes it.
func codeName(c codes.Code) string { return code.Code(c).String() }

func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(interface{ GetReason() string }); ok {
			return info.GetReason()
		}
	}
	return ""
}
