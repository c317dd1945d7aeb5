package rpc

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallMetrics counts and times the calls of one method. Code is a place among the codes that Options.Metrics got, trace the
// id of a sampled trace or empty.
type CallMetrics interface {
	Begin()
	End(code int, seconds float64, trace string)
}

// observer has the metrics of the methods of a server by their full names.
type observer map[string]CallMetrics

func (o observer) add(server *grpc.Server, metrics func(kind, service, method string, codes []string) CallMetrics) {
	var names []string
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		names = append(names, code.String())
	}
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			o["/"+service+"/"+m.Name] = metrics(kindOf(m), service, m.Name, names)
		}
	}
}

func kindOf(m grpc.MethodInfo) string {
	switch {
	case m.IsClientStream && m.IsServerStream:
		return "bidi_stream"
	case m.IsClientStream:
		return "client_stream"
	case m.IsServerStream:
		return "server_stream"
	}
	return "unary"
}

func (o observer) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	o.observe(ctx, info.FullMethod, func() error {
		response, err = handle(ctx, request)
		return err
	})
	return response, err
}

func (o observer) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	o.observe(stream.Context(), info.FullMethod, func() error {
		err = handle(service, stream)
		return err
	})
	return err
}

func (o observer) observe(ctx context.Context, method string, call func() error) {
	m, begun := o[method], time.Now() //nolint:forbidigo // A duration for the metrics; nothing depends on it.
	m.Begin()
	code, traced := status.Code(call()), ""
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		traced = s.TraceID().String()
	}
	m.End(int(min(code, codes.Unauthenticated)), time.Since(begun).Seconds(), traced)
}
