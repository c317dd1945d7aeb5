package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// principalKey is the metadata key of the principal of a forwarded call. Only the cluster port
// reads it, because only members of the cluster reach that port. The member that received the call
// has authenticated the caller, authorized the call and audited it.
const principalKey = "hindsight-principal-bin"

// groupKey is the metadata key of the group of a forwarded call, absent for group 0. A forwarded list
// has the models of this group alone. Only the cluster port reads it.
const groupKey = "hindsight-group"

func addPrincipal(ctx context.Context, to metadata.MD) {
	p := auth.FromContext(ctx)
	if p == nil {
		return
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic("rpc: " + err.Error()) // Strings and a number always have JSON.
	}
	to.Set(principalKey, string(text))
}

type members struct{ rules map[string]*rule }

func (m members) enter(ctx context.Context, method string) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, principalKey)
	if len(values) == 0 {
		return ctx, nil
	}
	p := new(auth.Principal)
	if err := json.Unmarshal([]byte(values[0]), p); err != nil {
		return nil, fmt.Errorf("%w: the principal of a forwarded call: %w", auth.ErrInvalid, err)
	}
	rule := m.rules[method]
	if rule == nil {
		return nil, fmt.Errorf("%w: %s has no rule", auth.ErrRole, method)
	}
	return rule.carry(ctx, p), nil
}

func (m members) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, err := m.enter(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func (m members) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, err := m.enter(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return handle(service, tracedStream{stream, ctx})
}

// memberServer answers the calls that other members of the cluster forward. A server without a
// cluster has a nil memberServer.
type memberServer struct{ *grpc.Server }

// newMemberServer serves the API on the cluster port, with fewer interceptors, because the member
// that received a call has authorized, audited and counted the call.
func newMemberServer(
	o *Options, predictions *predictions, models *models, tracing *tracing, admission *admission, recovered recovery.Option,
) *memberServer {
	rejections, forward := &rejections{log: o.Log}, newForwarding(o, tracing, models.draining, true)
	ownModels := *models
	ownModels.forward = forward
	members := members{rules()}
	var in interceptors
	if tracing != nil {
		in.add(tracing.unary, tracing.stream)
	}
	in.add(rejections.unary, rejections.stream)
	in.add(members.unary, members.stream)
	in.unaries = append(in.unaries, admission.unary)
	in.add(recovery.UnaryServerInterceptor(recovered), recovery.StreamServerInterceptor(recovered))
	in.add(forward.unary, forward.stream)
	s := &memberServer{grpc.NewServer(
		grpc.ChainUnaryInterceptor(in.unaries...), grpc.ChainStreamInterceptor(in.streams...),
		grpc.MaxRecvMsgSize(o.MaxMessageBytes), grpc.MaxSendMsgSize(o.MaxMessageBytes), grpc.WaitForHandlers(true),
	)}
	hindsightv1.RegisterPredictionServiceServer(s, predictions)
	hindsightv1.RegisterModelServiceServer(s, &ownModels)
	hindsightv1.RegisterClusterServiceServer(s, &clusters{groups: hosts{o.Groups}, forward: forward})
	return s
}

func (s *memberServer) gracefulStop() {
	if s != nil {
		s.GracefulStop()
	}
}

func (s *memberServer) stop() {
	if s != nil {
		s.Stop()
	}
}

// ServeMembers answers the calls that members forward, until Drain. Only members may connect to the
// listener, because their calls name the principal.
func (s *Server) ServeMembers(listener net.Listener) error {
	if err := s.members.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("rpc: serve members: %w", err)
	}
	return nil
}
