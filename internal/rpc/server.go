// Package rpc is the gRPC surface: it turns messages into the engine's terms
// and back, and the engine's errors into statuses, by one table.
package rpc

import (
	"context"
	"net"
	"runtime/debug"
	"sync"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// Options of a server. Every field is required, but for MemoryLimit.
type Options struct {
	Engine *engine.Engine
	Log    *zap.Logger
	// Metrics counts and times the calls.
	Metrics *grpcprom.ServerMetrics
	// MaxMessageBytes bounds a request, MaxBatchRows the rows of a batch.
	MaxMessageBytes, MaxBatchRows int
	// MemoryLimit is what the process stays below, 0 for no limit. Calls that are
	// half sent end when little of it is left.
	MemoryLimit int64
	// Reflection lets grpcurl and its like ask for the services.
	Reflection bool
}

// Limits of a connection.
const (
	handshakeTimeout = 5 * time.Second
	maxStreams       = 1024
	maxHeaderBytes   = 16 << 10
	minPingInterval  = 10 * time.Second
	sessionCalls     = 1024
	// A connection that says nothing for idlePing is pinged, and closed when
	// nothing comes for pingTimeout: the other end is gone.
	idlePing    = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Server is a gRPC server of both services, health and reflection.
type Server struct {
	*grpc.Server
	health      *health.Server
	predictions *predictions
	admission   *admission
	once        sync.Once
}

// New is a server that does not listen yet. It is healthy from the start:
// the engine has recovered before it is handed over.
func New(o Options) *Server {
	recovered := recovery.WithRecoveryHandler(func(p any) error {
		o.Log.Error("panic in a handler", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		return status.Error(codes.Internal, "internal error; the server's log says more")
	})
	admission := admit(o.Log, o.MemoryLimit)
	s := &Server{
		Server: grpc.NewServer(
			grpc.ChainUnaryInterceptor(
				o.Metrics.UnaryServerInterceptor(), unaryErrors(o.Log), admission.unary, recovery.UnaryServerInterceptor(recovered)),
			grpc.ChainStreamInterceptor(
				o.Metrics.StreamServerInterceptor(), streamErrors(o.Log), admission.stream, recovery.StreamServerInterceptor(recovered)),
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
		health: health.NewServer(), admission: admission,
		predictions: &predictions{
			engine: o.Engine, maxRows: o.MaxBatchRows, sessionCalls: sessionCalls, draining: make(chan struct{}),
		},
	}
	hindsightv1.RegisterPredictionServiceServer(s.Server, s.predictions)
	hindsightv1.RegisterModelServiceServer(s.Server, &models{engine: o.Engine})
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

// Serve takes calls from the listener until Drain.
func (s *Server) Serve(l net.Listener) error {
	return s.Server.Serve(counting{l, &s.admission.connections}) //nolint:wrapcheck // It is gRPC's.
}

// Drain tells health watchers that the server is going, ends sessions after
// what they have read, lets calls in flight end, and stops hard when they take
// longer than the context allows.
func (s *Server) Drain(ctx context.Context) {
	s.health.Shutdown()
	s.once.Do(func() {
		close(s.predictions.draining)
		s.admission.close()
	})
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

// unaryErrors turns the errors of handlers into statuses and logs those that
// hide their cause.
func unaryErrors(log *zap.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		response, err := handle(ctx, request)
		return response, report(log, info.FullMethod, err)
	}
}

func streamErrors(log *zap.Logger) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return report(log, info.FullMethod, handle(service, stream))
	}
}

func report(log *zap.Logger, method string, err error) error {
	if err == nil {
		return nil
	}
	s := statusOf(err)
	switch s.Code() {
	case codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unknown:
		log.Error("call failed", zap.String("method", method), zap.Stringer("code", s.Code()), zap.Error(err))
	default:
		log.Debug("call refused", zap.String("method", method), zap.Stringer("code", s.Code()), zap.Error(err))
	}
	return s.Err() //nolint:wrapcheck // A status is what gRPC sends.
}
