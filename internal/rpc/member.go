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
	"google.golang.org/grpc/tap"

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

// carryPrincipal gives the principal of a forwarded call to its handler.
func (f *forwarding) carryPrincipal(ctx context.Context, info *tap.Info) (context.Context, error) {
	values := info.Header.Get(principalKey)
	if len(values) == 0 {
		return ctx, nil
	}
	p := new(auth.Principal)
	if err := json.Unmarshal([]byte(values[0]), p); err != nil {
		return nil, StatusOf(fmt.Errorf("%w: the principal of a forwarded call: %w", auth.ErrInvalid, err)).Err()
	}
	rule := f.rules[info.FullMethodName]
	if rule == nil {
		return nil, StatusOf(fmt.Errorf("%w: %s has no rule", auth.ErrRole, info.FullMethodName)).Err()
	}
	return rule.carry(ctx, p), nil
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
	memberModels := *models
	memberModels.forward = forward
	var in interceptors
	if tracing != nil {
		in.add(tracing.unary, tracing.stream)
	}
	in.add(rejections.unary, rejections.stream)
	in.unaries = append(in.unaries, admission.unary)
	in.add(recovery.UnaryServerInterceptor(recovered), recovery.StreamServerInterceptor(recovered))
	in.add(forward.unary, forward.stream)
	s := &memberServer{grpc.NewServer(
		grpc.InTapHandle(forward.carryPrincipal), grpc.ChainUnaryInterceptor(in.unaries...), grpc.ChainStreamInterceptor(in.streams...),
		grpc.MaxRecvMsgSize(o.MaxMessageBytes), grpc.MaxSendMsgSize(o.MaxMessageBytes), grpc.WaitForHandlers(true),
	)}
	hindsightv1.RegisterPredictionServiceServer(s, predictions)
	hindsightv1.RegisterModelServiceServer(s, &memberModels)
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
