// Package rpc serves the gRPC API. It translates between messages and the engine's types,
// and turns errors into statuses by one table.
package rpc

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// Options of a server. Groups, Log and the limits of messages are required.
type Options struct {
	Groups Groups
	Log    *zap.Logger
	// Metrics returns the metrics of the calls of a method, which end with one of the codes. Nil is no metrics.
	Metrics func(kind, service, method string, codes []string) CallMetrics
	// MaxMessageBytes bounds a request, MaxBatchRows the rows of a batch.
	MaxMessageBytes, MaxBatchRows int
	// MemoryLimit is the memory limit of the process; 0 is no limit. Requests in
	// progress hold at most an eighth of it together, models in transfer another.
	MemoryLimit int64
	// Transfers counts the models in transfer. Nil is a budget of the server.
	Transfers *auth.Budget
	// Tracer makes a span of every call; nil makes none.
	Tracer trace.TracerProvider
	// Rejected receives the reason of every rejected or failed call; nil is no receiver. See Reasons.
	Rejected func(reason string)
	// Credentials secure connections; nil is plaintext.
	Credentials credentials.TransportCredentials
	// Auth authenticates callers; nil accepts every call. Audit receives the records of the
	// audit log, and must not keep them; nil is no log. Now is required with either.
	Auth  *auth.Authenticator
	Audit func(*auth.Record)
	Now   func() time.Time
	// admission is newAdmission(MemoryLimit) unless a test sets it.
	admission *admission
}

// Limits of a connection.
const (
	handshakeTimeout = 5 * time.Second
	maxStreams       = 256
	maxHeaderBytes   = 16 << 10
	// Clients may ping every 10 s, and the network delivers two pings closer than they were sent.
	minPingInterval = 8 * time.Second
	// Goroutines that handle calls one after another, each with a stack that has grown to its size. A call
	// that finds none idle gets a goroutine of its own.
	streamWorkers = 128
	// The server pings a connection after idlePing without traffic, and closes it after
	// pingTimeout without an answer.
	idlePing    = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Server is a gRPC server of the services of the API, health and reflection.
type Server struct {
	*grpc.Server
	health   *health.Server
	forward  *forwarding
	draining chan struct{}
	// members is the server of the cluster port, nil without a cluster.
	members         *memberServer
	admission       *admission
	access          *access
	once            sync.Once
	methods         map[string]localMethod
	interceptors    interceptors
	maxMessageBytes int
}

// New returns a server that does not listen yet. Its health is SERVING, because the
// engine is open.
func New(o Options) *Server {
	recovered := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		o.Log.With(traceFields(ctx)...).Error("panic in a handler", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		return status.Error(codes.Internal, "internal error; the server's log says more")
	})
	admission, draining := cmp.Or(o.admission, newAdmission(o.MemoryLimit)), make(chan struct{})
	admission.transfers = cmp.Or(o.Transfers, admission.transfers)
	rejections, tracing := &rejections{o.Log, o.Rejected}, newTracing(o.Tracer)
	access := newAccess(&o)
	forward := newForwarding(&o, tracing, draining, false)
	var in interceptors
	if tracing != nil {
		in.add(tracing.unary, tracing.stream)
	}
	observer := observer{}
	if o.Metrics != nil {
		in.add(observer.unary, observer.stream)
	}
	in.add(rejections.unary, rejections.stream)
	if access != nil {
		in.add(access.unary, access.stream)
	}
	in.unaries = append(in.unaries, admission.unary)
	in.add(recovery.UnaryServerInterceptor(recovered), recovery.StreamServerInterceptor(recovered))
	if forward != nil {
		in.add(forward.unary, forward.stream)
	}
	s := &Server{
		Server: grpc.NewServer(
			grpc.ChainUnaryInterceptor(in.unaries...),
			grpc.ChainStreamInterceptor(in.streams...),
			grpc.Creds(cmp.Or[credentials.TransportCredentials](o.Credentials, insecure.NewCredentials())),
			grpc.MaxRecvMsgSize(o.MaxMessageBytes),
			grpc.MaxSendMsgSize(o.MaxMessageBytes),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.MaxHeaderListSize(maxHeaderBytes),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: idlePing, Timeout: pingTimeout}),
			grpc.InTapHandle(admission.tap),
			grpc.WaitForHandlers(true),
			grpc.NumStreamWorkers(streamWorkers),
		),
		health: health.NewServer(), admission: admission, access: access,
		methods: map[string]localMethod{}, interceptors: in, maxMessageBytes: o.MaxMessageBytes,
		forward: forward, draining: draining,
	}
	registered := registrar{s.Server, s.methods}
	predictions := &predictions{groups: hosts{o.Groups}, maxRows: o.MaxBatchRows}
	hindsightv1.RegisterPredictionServiceServer(registered, predictions)
	models := &models{
		groups: hosts{o.Groups}, forward: forward, transfers: admission.transfers, draining: draining, learners: sync.OnceValues(describeLearners),
	}
	hindsightv1.RegisterModelServiceServer(registered, models)
	hindsightv1.RegisterClusterServiceServer(registered, &clusters{groups: hosts{o.Groups}, forward: forward})
	if forward != nil {
		s.members = newMemberServer(&o, predictions, models, tracing, admission, recovered)
	}
	healthv1.RegisterHealthServer(registered, s.health)
	s.setHealth(healthv1.HealthCheckResponse_SERVING)
	reflection.Register(s.Server) // Tools like grpcurl list the services.
	if o.Metrics != nil {
		observer.add(s.Server, o.Metrics)
	}
	return s
}

func (s *Server) setHealth(status healthv1.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	for _, service := range services() {
		s.health.SetServingStatus(string(service.FullName()), status)
	}
}

// StopServing sets the health of every service to NOT_SERVING. The server still answers
// calls.
func (s *Server) StopServing() { s.setHealth(healthv1.HealthCheckResponse_NOT_SERVING) }

// Drain ends the server. Health becomes NOT_SERVING, watches end, and Drain waits for the
// other calls. When the context ends first, Drain cancels the remaining calls.
func (s *Server) Drain(ctx context.Context) {
	s.health.Shutdown()
	s.once.Do(func() { close(s.draining) })
	ended := make(chan struct{})
	go func() {
		s.GracefulStop()
		s.members.gracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.Stop()
		s.members.stop()
		<-ended
	}
}
