package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

// localBuffer is what one direction of the connection within the process holds.
const localBuffer = 256 << 10

// registrar registers services with the gRPC server, and keeps their unary methods by
// full name for calls from within the process.
type registrar struct {
	server  *grpc.Server
	methods map[string]localMethod
}

type localMethod struct {
	handler grpc.MethodHandler
	service any
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(description *grpc.ServiceDesc, service any) {
	r.server.RegisterService(description, service)
	for _, m := range description.Methods {
		r.methods["/"+description.ServiceName+"/"+m.MethodName] = localMethod{m.Handler, service}
	}
}

// Local is a client's connection from within the process. A unary call is a call of the
// handler, through the same interceptors, limits and deadlines as from outside. The
// principal and the peer of its context are those of the call. A stream goes through the gRPC server and a buffer; at most 256 are open at once. The
// caller closes it after its calls have ended.
type Local struct {
	server  *Server
	streams *grpc.ClientConn
}

// Local connects to the server. Drain ends the streams, and does not wait for unary
// calls: whoever makes them does.
func (s *Server) Local() (*Local, error) {
	listener := bufconn.Listen(localBuffer)
	streams, err := grpc.NewClient("passthrough:///local",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.maxMessageBytes), grpc.MaxCallSendMsgSize(s.maxMessageBytes)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, fmt.Errorf("rpc: local connection: %w", err)
	}
	s.listeners.Go(func() {
		_ = s.Serve(localListener{listener}) // It ends with the server, and has no other error.
	})
	return &Local{s, streams}, nil
}

// Close closes the connection.
func (l *Local) Close() error { return l.streams.Close() }

// Answers asks the server's health service, through the gRPC server and a buffer. Any answer
// will do: a server whose disk refuses writes says NOT_SERVING, and goes on predicting.
func (l *Local) Answers(ctx context.Context) error {
	if _, err := healthv1.NewHealthClient(l.streams).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		return fmt.Errorf("rpc: health: %w", err)
	}
	return nil
}

// NewStream implements grpc.ClientConnInterface. The context has to end.
func (l *Local) NewStream(ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return l.streams.NewStream(l.server.access.pass(carried(ctx)), description, method, options...)
}

var errNotMessage = errors.New("rpc: not a message")

// Invoke implements grpc.ClientConnInterface. It takes no options.
func (l *Local) Invoke(ctx context.Context, method string, request, response any, _ ...grpc.CallOption) error {
	m, ok := l.server.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	sent, ok := request.(proto.Message)
	if !ok {
		return errNotMessage
	}
	if size := proto.Size(sent); size > l.server.maxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "message of %d bytes, at most %d", size, l.server.maxMessageBytes)
	}
	outgoing, _ := metadata.FromOutgoingContext(ctx)
	ctx, cancel := l.server.admission.bounded(metadata.NewIncomingContext(ctx, outgoing), method)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return statusOf(err).Err()
	}
	answer, err := m.handler(m.service, ctx, func(into any) error { return copyMessage(into, sent) }, l.server.unary)
	if err != nil {
		return err
	}
	return copyMessage(response, answer)
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

// chain is one interceptor of many, the first of them outermost.
func chain(interceptors ...grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		for i := len(interceptors) - 1; i >= 0; i-- {
			next, interceptor := handle, interceptors[i]
			handle = func(ctx context.Context, request any) (any, error) { return interceptor(ctx, request, info, next) }
		}
		return handle(ctx, request)
	}
}
