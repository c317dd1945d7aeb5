package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/rpc"
)

// checked is a call of a Predict that does nothing, by a principal of some models with
// limits.
func checked(tb testing.TB) func() error {
	tb.Helper()
	token := auth.NewToken()
	e := who(token, auth.Write, "a-", "m")
	e.Rate, e.Concurrency = 1e6, 8
	g := guard(tb, e)
	check := rpc.CheckUnary(g.server)
	ctx := metadata.NewIncomingContext(tb.Context(), metadata.Pairs("authorization", "Bearer "+token, "user-agent", "x"))
	request, response := &hindsightv1.PredictRequest{Model: "m", Remember: proto.Bool(false)}, &hindsightv1.PredictResponse{}
	info := &grpc.UnaryServerInfo{FullMethod: hindsightv1.PredictionService_Predict_FullMethodName}
	handle := func(ctx context.Context, _ any) (any, error) { return response, ctx.Err() }
	return func() error {
		_, err := check(ctx, request, info, handle)
		return err
	}
}

// To check a call allocates the context that carries the principal, and the copy of the
// header that gRPC hands out.
func TestCheckingAllocatesTheContext(t *testing.T) {
	call := checked(t)
	if n := testing.AllocsPerRun(100, func() { require.NoError(t, call()) }); n > 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}
