package rpc

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"hindsight/internal/engine"
)

// registrar registers services with the gRPC server, and keeps their methods by full name
// for calls from within the process.
type registrar struct {
	server  *grpc.Server
	methods map[string]localMethod
}

// localMethod is a method of a service. A unary method has call, others have stream.
type localMethod struct {
	call    grpc.MethodHandler
	stream  *grpc.StreamDesc
	service any
}

func (r registrar) RegisterService(description *grpc.ServiceDesc, service any) {
	r.server.RegisterService(description, service)
	prefix := "/" + description.ServiceName + "/"
	for _, m := range description.Methods {
		r.methods[prefix+m.MethodName] = localMethod{call: m.Handler, service: service}
	}
	for n := range description.Streams {
		r.methods[prefix+description.Streams[n].StreamName] = localMethod{stream: &description.Streams[n], service: service}
	}
}

// Local answers calls from within the process. They go to the handlers through the same interceptors, limits and
// deadlines as calls from outside, without a network. The principal, the peer and the trace of a call come from its
// context. Drain ends watches, and does not wait for calls: whoever makes them waits.
type Local struct{ server *Server }

// Local returns the server for calls from within the process.
func (s *Server) Local() *Local { return &Local{s} }

// Answers fails unless the gRPC server and the health service answer. Any answer will do:
// a server whose disk rejects writes answers NOT_SERVING, and predicts.
func (l *Local) Answers(ctx context.Context) error {
	select {
	case <-l.server.draining:
		return engine.ErrClosed
	default:
	}
	l.server.GetServiceInfo() // It takes the lock of the gRPC server.
	return l.Invoke(ctx, healthv1.Health_Check_FullMethodName, &healthv1.HealthCheckRequest{}, new(healthv1.HealthCheckResponse))
}

// Invoke makes a unary call, as grpc.ClientConnInterface does. It ignores all options but grpc.Trailer.
func (l *Local) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	m := l.server.methods[method]
	if m.call == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	message, _ := request.(proto.Message)
	if size := proto.Size(message); size > l.server.maxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "message of %d bytes, at most %d", size, l.server.maxMessageBytes)
	}
	ctx, cancel := l.server.admission.bounded(ctx, method)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return StatusOf(err).Err()
	}
	transport := &localTransport{method: method}
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport)
	answer, err := m.call(m.service, ctx, func(into any) error { return copyMessage(into, request) }, l.server.interceptors.unary)
	for _, option := range options {
		if to, ok := option.(grpc.TrailerCallOption); ok {
			*to.TrailerAddr = transport.trailer
		}
	}
	if err != nil {
		return err
	}
	return copyMessage(response, answer)
}

type localTransport struct {
	method  string
	trailer metadata.MD
}

func (t *localTransport) Method() string { return t.method }

func (t *localTransport) SetHeader(metadata.MD) error { return nil }

func (t *localTransport) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerTransportStream. Only the handler's goroutine calls it.
func (t *localTransport) SetTrailer(trailer metadata.MD) error {
	t.trailer = metadata.Join(t.trailer, trailer)
	return nil
}

// Stream lets the handler of a method receive from a stream and send to the stream. It returns when the handler has
// returned.
func (l *Local) Stream(method string, stream grpc.ServerStream) error {
	m := l.server.methods[method]
	if m.stream == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	ctx, cancel := l.server.admission.bounded(stream.Context(), method)
	defer cancel()
	info := &grpc.StreamServerInfo{FullMethod: method, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams}
	return l.server.interceptors.stream(m.service, localStream{contextStream{stream, ctx}}, info, m.stream.Handler)
}

// localStream ends with its time, as a stream of gRPC does: a client of HTTP may be slow without end. A client that has
// left ends its stream itself.
type localStream struct{ contextStream }

func (s localStream) late() error {
	if err := s.ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return StatusOf(err).Err()
	}
	return nil
}

func (s localStream) RecvMsg(m any) error {
	if err := s.late(); err != nil {
		return err
	}
	return s.ServerStream.RecvMsg(m)
}

func (s localStream) SendMsg(m any) error {
	if err := s.late(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

var errNotMessage = errors.New("rpc: not a message")

// copyMessage copies a message into an empty one, so that caller and handler share
// nothing.
func copyMessage(into, from any) error {
	a, ok := into.(proto.Message)
	b, also := from.(proto.Message)
	if !ok || !also {
		return errNotMessage
	}
	proto.Merge(a, b)
	return nil
}

// interceptors are the interceptors of a server, the outermost first.
type interceptors struct {
	unaries []grpc.UnaryServerInterceptor
	streams []grpc.StreamServerInterceptor
}

func (i *interceptors) add(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) {
	i.unaries, i.streams = append(i.unaries, unary), append(i.streams, stream)
}

func (i *interceptors) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	for _, interceptor := range slices.Backward(i.unaries) {
		next := handle
		handle = func(ctx context.Context, request any) (any, error) { return interceptor(ctx, request, info, next) }
	}
	return handle(ctx, request)
}

func (i *interceptors) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	for _, interceptor := range slices.Backward(i.streams) {
		next := handle
		handle = func(service any, stream grpc.ServerStream) error { return interceptor(service, stream, info, next) }
	}
	return handle(service, stream)
}
