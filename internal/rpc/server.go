// Package rpc is the gRPC surface: it turns messages into the engine's terms
// and back, and the engine's errors into statuses, by one table.
package rpc

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
)

// Options of a server. Engine, Log, Metrics and the limits of messages are required.
type Options struct {
	Engine *engine.Engine
	Log    *zap.Logger
	// Metrics counts and times the calls, as Observed says.
	Metrics  *grpcprom.ServerMetrics
	Observed []grpcprom.Option
	// MaxMessageBytes bounds a request, MaxBatchRows the rows of a batch.
	MaxMessageBytes, MaxBatchRows int
	// MemoryLimit is the memory limit of the process; 0 is no limit. Requests in
	// progress may hold an eighth of it together, models in transfer another.
	MemoryLimit int64
	// Tracer makes a span of every call; nil makes none.
	Tracer trace.TracerProvider
	// Refused is told why a call was refused or failed, one of Reasons. It may be nil.
	Refused func(reason string)
	// Credentials secure connections from outside; nil is plaintext.
	Credentials credentials.TransportCredentials
	// Reflection lets tools like grpcurl ask for the services.
	Reflection bool
	// Auth tells who calls; nil takes every call. Audit is told of the calls that the audit
	// log keeps, and must not keep the record; nil is no log. Now is required with either.
	Auth  *auth.Authenticator
	Audit func(*auth.Record)
	Now   func() time.Time
	// admission is newAdmission(MemoryLimit), but in tests.
	admission *admission
}

// Limits of a connection.
const (
	handshakeTimeout = 5 * time.Second
	maxStreams       = 256
	maxHeaderBytes   = 16 << 10
	minPingInterval  = 10 * time.Second
	sessionCalls     = 1024
	// A connection on which nothing comes for idlePing is pinged. It is closed if
	// nothing comes for pingTimeout after that.
	idlePing    = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Server is a gRPC server of both services, health and reflection.
type Server struct {
	*grpc.Server
	health      *health.Server
	predictions *predictions
	admission   *admission
	access      *access
	once        sync.Once
	// What Local needs: the unary methods and the interceptors before them.
	methods         map[string]localMethod
	unary           grpc.UnaryServerInterceptor
	maxMessageBytes int
	// listeners serve connections from within the process.
	listeners sync.WaitGroup
}

// New is a server that does not listen yet. Its health is SERVING, because the
// engine that it is given is open.
func New(o Options) *Server {
	recovered := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		o.Log.With(traceFields(ctx)...).Error("panic in a handler", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		return status.Error(codes.Internal, "internal error; the server's log says more")
	})
	admission, draining := cmp.Or(o.admission, newAdmission(o.MemoryLimit)), make(chan struct{})
	refusals, tracing := newRefusals(&o), newTracing(o.Tracer)
	access := newAccess(&o)
	judgeUnary, judgeStream := access.interceptors()
	unaries, streams := []grpc.UnaryServerInterceptor{}, []grpc.StreamServerInterceptor{}
	if tracing != nil {
		unaries, streams = append(unaries, tracing.unary), append(streams, tracing.stream)
	}
	unaries = append(append(unaries, o.Metrics.UnaryServerInterceptor(o.Observed...), refusals.unary), judgeUnary...)
	unary := chain(append(unaries, admission.unary, recovery.UnaryServerInterceptor(recovered))...)
	streams = append(append(streams, o.Metrics.StreamServerInterceptor(o.Observed...), refusals.stream), judgeStream...)
	streams = append(streams, recovery.StreamServerInterceptor(recovered))
	s := &Server{
		Server: grpc.NewServer(
			grpc.UnaryInterceptor(unary),
			grpc.ChainStreamInterceptor(streams...),
			grpc.Creds(newHandshakes(o.Credentials, o.Log)),
			grpc.MaxRecvMsgSize(o.MaxMessageBytes),
			grpc.MaxSendMsgSize(o.MaxMessageBytes),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.MaxHeaderListSize(maxHeaderBytes),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: idlePing, Timeout: pingTimeout}),
			grpc.InTapHandle(admission.tap),
			grpc.WaitForHandlers(true),
		),
		health: health.NewServer(), admission: admission, access: access,
		methods: map[string]localMethod{}, unary: unary, maxMessageBytes: o.MaxMessageBytes,
		predictions: &predictions{
			engine: o.Engine, access: access, maxRows: o.MaxBatchRows, sessionCalls: sessionCalls, draining: draining,
			tracing: tracing, refusals: refusals,
		},
	}
	services := registrar{s.Server, s.methods}
	hindsightv1.RegisterPredictionServiceServer(services, s.predictions)
	hindsightv1.RegisterModelServiceServer(services, &models{engine: o.Engine, transfers: &admission.transfers, draining: draining})
	healthv1.RegisterHealthServer(s.Server, s.health)
	for _, service := range []string{
		hindsightv1.PredictionService_ServiceDesc.ServiceName, hindsightv1.ModelService_ServiceDesc.ServiceName,
	} {
		s.health.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
	}
	if o.Reflection {
		reflection.Register(s.Server)
	}
	o.Metrics.InitializeMetrics(s.Server)
	return s
}

// StopServing lets health say NOT_SERVING of every service. Calls are answered as before.
func (s *Server) StopServing() {
	for _, service := range []string{
		"", hindsightv1.PredictionService_ServiceDesc.ServiceName, hindsightv1.ModelService_ServiceDesc.ServiceName,
	} {
		s.health.SetServingStatus(service, healthv1.HealthCheckResponse_NOT_SERVING)
	}
}

// Drain ends the server: health watchers are told NOT_SERVING, sessions answer
// the calls that they have read and end, watchers of models end, and calls in flight
// end. When the context
// ends first, the calls that are left are cancelled.
func (s *Server) Drain(ctx context.Context) {
	s.health.Shutdown()
	s.once.Do(func() { close(s.predictions.draining) })
	defer s.listeners.Wait()
	defer s.predictions.receivers.Wait()
	ended := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.Stop()
		<-ended
	}
}
