package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

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

// Local is a client's connection from within the process. Its calls go to the handlers
// through the same interceptors, limits and deadlines as calls from outside, without a
// network. The principal, the peer and the trace of a call come from its context.
type Local struct{ server *Server }

// Local returns a connection to the server. Drain ends its streams, and does not wait for
// its unary calls: whoever makes them waits.
func (s *Server) Local() *Local { return &Local{s} }

// Answers fails unless the gRPC server and the health service answer. Any answer will do:
// a server whose disk rejects writes answers NOT_SERVING, and predicts.
func (l *Local) Answers(ctx context.Context) error {
	if l.server.streams.isClosed() {
		return engine.ErrClosed
	}
	l.server.GetServiceInfo() // It takes the lock of the gRPC server.
	if _, err := healthv1.NewHealthClient(l).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		return fmt.Errorf("rpc: health: %w", err)
	}
	return nil
}

// incoming is the context of a call at the server: outgoing metadata become incoming, and
// the method's time limit holds.
func (l *Local) incoming(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	outgoing, _ := metadata.FromOutgoingContext(ctx)
	return l.server.admission.bounded(metadata.NewIncomingContext(ctx, outgoing), method)
}

// Invoke implements grpc.ClientConnInterface. It ignores all options but grpc.Trailer.
func (l *Local) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	m := l.server.methods[method]
	if m.call == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	if err := l.fits(request); err != nil {
		return err
	}
	ctx, cancel := l.incoming(ctx, method)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return statusOf(err).Err()
	}
	transport := &localTransport{method: method}
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport)
	answer, err := m.call(m.service, ctx, func(into any) error { return copyMessage(into, request) }, l.server.unary)
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

// NewStream implements grpc.ClientConnInterface. The caller cancels the context, or
// receives until an error. It ignores options.
func (l *Local) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	m := l.server.methods[method]
	if m.stream == nil {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	ctx, cancel := l.incoming(ctx, method)
	s := &localStream{
		local: l, clientStreams: m.stream.ClientStreams, requests: make(chan any, 1), responses: make(chan any),
		begun: make(chan struct{}), ended: make(chan struct{}),
	}
	info := &grpc.StreamServerInfo{FullMethod: method, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams}
	started := l.server.streams.start(cancel, func() {
		defer cancel()
		s.err = l.server.stream(m.service, localServerStream{s, ctx}, info, m.stream.Handler)
		close(s.ended)
	})
	if !started {
		cancel()
		return nil, statusOf(engine.ErrClosed).Err()
	}
	return localClientStream{s, ctx}, nil
}

var errNotMessage = errors.New("rpc: not a message")

// fits rejects messages above the limit, as the gRPC server does.
func (l *Local) fits(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return errNotMessage
	}
	if size := proto.Size(m); size > l.server.maxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "message of %d bytes, at most %d", size, l.server.maxMessageBytes)
	}
	return nil
}

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

// localStream is a stream from within the process, as both of its ends see it.
type localStream struct {
	local                *Local
	clientStreams        bool
	requests, responses  chan any
	closeOnce, beginOnce sync.Once
	// begun is closed when the handler sends its header or its first response.
	begun chan struct{}
	// ended is closed when the handler has returned err.
	ended chan struct{}
	err   error
}

type localClientStream struct {
	*localStream
	ctx context.Context //nolint:containedctx // A grpc.ClientStream has its context.
}

func (s localClientStream) Context() context.Context { return s.ctx }

// Header implements grpc.ClientStream. It returns nil if the handler ended without one.
func (s localClientStream) Header() (metadata.MD, error) {
	select {
	case <-s.begun:
	case <-s.ended:
		select {
		case <-s.begun:
		default:
			return nil, nil
		}
	}
	return metadata.MD{}, nil
}

func (s localClientStream) Trailer() metadata.MD { return nil }

func (s localClientStream) CloseSend() error {
	s.closeOnce.Do(func() { close(s.requests) })
	return nil
}

// SendMsg implements grpc.ClientStream. After the handler has ended, RecvMsg says how.
func (s localClientStream) SendMsg(m any) error {
	if err := s.local.fits(m); err != nil {
		return err
	}
	select {
	case s.requests <- cloneOf(m):
		return nil
	case <-s.ended:
		if !s.clientStreams {
			return nil
		}
		return io.EOF
	}
}

func (s localClientStream) RecvMsg(m any) error {
	select {
	case response := <-s.responses:
		return copyMessage(m, response)
	case <-s.ended:
		if s.err == nil {
			return io.EOF
		}
		return s.err
	}
}

type localServerStream struct {
	*localStream
	ctx context.Context //nolint:containedctx // A grpc.ServerStream has its context.
}

func (s localServerStream) Context() context.Context { return s.ctx }

func (s localServerStream) SetHeader(metadata.MD) error { return nil }

func (s localServerStream) SendHeader(metadata.MD) error {
	s.beginOnce.Do(func() { close(s.begun) })
	return nil
}

func (s localServerStream) SetTrailer(metadata.MD) {}

func (s localServerStream) SendMsg(m any) error {
	if err := s.local.fits(m); err != nil {
		return err
	}
	_ = s.SendHeader(nil)
	select {
	case s.responses <- cloneOf(m):
		return nil
	case <-s.ctx.Done():
		return statusOf(s.ctx.Err()).Err()
	}
}

func (s localServerStream) RecvMsg(m any) error {
	select {
	case request, open := <-s.requests:
		if !open {
			return io.EOF
		}
		return copyMessage(m, request)
	case <-s.ctx.Done():
		return statusOf(s.ctx.Err()).Err()
	}
}

func cloneOf(m any) any {
	message, _ := m.(proto.Message)
	return proto.Clone(message)
}

type localStreams struct {
	ctx      context.Context //nolint:containedctx // It lives as long as the server.
	cancel   context.CancelFunc
	handlers sync.WaitGroup
	mu       sync.Mutex
	// closed rejects further streams. mu guards it.
	closed bool
}

func newLocalStreams() *localStreams {
	ctx, cancel := context.WithCancel(context.Background())
	return &localStreams{ctx: ctx, cancel: cancel}
}

func (l *localStreams) start(cancel context.CancelFunc, handle func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.handlers.Go(func() {
		forget := context.AfterFunc(l.ctx, cancel)
		defer forget()
		handle()
	})
	return true
}

func (l *localStreams) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *localStreams) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func chainUnary(interceptors []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		for i := len(interceptors) - 1; i >= 0; i-- {
			next, interceptor := handle, interceptors[i]
			handle = func(ctx context.Context, request any) (any, error) { return interceptor(ctx, request, info, next) }
		}
		return handle(ctx, request)
	}
}

func chainStream(interceptors []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		for i := len(interceptors) - 1; i >= 0; i-- {
			next, interceptor := handle, interceptors[i]
			handle = func(service any, stream grpc.ServerStream) error { return interceptor(service, stream, info, next) }
		}
		return handle(service, stream)
	}
}
