package rpc

import (
	"context"
	"errors"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// Reasons are the reasons that Options.Rejected receives: the reasons of the API, and the codes of rejections without one
// of them.
func Reasons() []string {
	var all []string
	for n := range hindsightv1.ErrorReason_name {
		if n != 0 {
			all = append(all, hindsightv1.ErrorReason(n).String())
		}
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		all = append(all, codeName(c))
	}
	return all
}

// rejections turns the errors of handlers into statuses, counts them, and logs those whose cause
// is hidden from the client.
type rejections struct {
	log      *zap.Logger
	rejected func(reason string)
}

func (r *rejections) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	return response, r.report(ctx, info.FullMethod, err)
}

func (r *rejections) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return r.report(stream.Context(), info.FullMethod, handle(service, stream))
}

func (r *rejections) report(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	s := StatusOf(err)
	if r.rejected != nil {
		reason := reasonOf(s)
		if hindsightv1.ErrorReason_value[reason] == 0 { // The rejection has none, or one of another version of the API.
			reason = codeName(s.Code())
		}
		r.rejected(reason)
	}
	level := zap.DebugLevel
	message := "call rejected"
	switch s.Code() {
	case codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unknown:
		// Shutting down, an election and a stream that broke off are no faults.
		brokeOff := s.Code() == codes.Unavailable && ctx.Err() != nil
		if !brokeOff && !errors.Is(err, engine.ErrClosed) && !notOwner(err) {
			level, message = zap.ErrorLevel, "call failed"
		}
	default: // The client gets the reason.
	}
	if line := r.log.Check(level, message); line != nil {
		line.Write(append(traceFields(ctx), zap.String("method", method), zap.Stringer("code", s.Code()), zap.Error(err))...)
	}
	return s.Err()
}
