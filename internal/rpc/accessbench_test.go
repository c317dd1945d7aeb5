package rpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/rpc"
)

// judged is a call of a Predict that does nothing, by a principal of some models with
// limits.
func judged(tb testing.TB) func() error {
	tb.Helper()
	token := auth.NewToken()
	e := who(token, auth.Write, "a-", "m")
	e.Rate, e.Concurrency = 1e6, 8
	g := guard(tb, e)
	judge := rpc.JudgeUnary(g.server)
	ctx := metadata.NewIncomingContext(tb.Context(), metadata.Pairs("authorization", "Bearer "+token, "user-agent", "x"))
	request, response := &hindsightv1.PredictRequest{Model: "m", Remember: proto.Bool(false)}, &hindsightv1.PredictResponse{}
	info := &grpc.UnaryServerInfo{FullMethod: hindsightv1.PredictionService_Predict_FullMethodName}
	handle := func(ctx context.Context, _ any) (any, error) { return response, ctx.Err() }
	return func() error {
		_, err := judge(ctx, request, info, handle)
		return err
	}
}

// To judge a call allocates the context that carries the principal, and the copy of the
// header that gRPC hands out.
func TestJudgingAllocatesTheContext(t *testing.T) {
	call := judged(t)
	if n := testing.AllocsPerRun(100, func() {
		noError(t, call())
	}); n > 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}

// BenchmarkJudge is what a server with tokens adds to each call.
func BenchmarkJudge(b *testing.B) {
	call := judged(b)
	b.ReportAllocs()
	for b.Loop() {
		noError(b, call())
	}
}

// BenchmarkGuardedCall is BenchmarkCall/Predict by a server without and with tokens in
// one run.
func BenchmarkGuardedCall(b *testing.B) {
	g := guard(b, who("admin", auth.Admin), who("a", auth.Write, "m"))
	g.create2(b, "m")
	plain := serve(b)
	plain.create(b, "m", linear(2))
	request := &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)}
	for _, c := range []struct {
		name, caller string
		by           hindsightv1.PredictionServiceClient
	}{{"without", "nobody", plain}, {"with", "a", g}} {
		b.Run(c.name, func(b *testing.B) {
			ctx := as(b.Context(), c.caller)
			b.ReportAllocs()
			for b.Loop() {
				must(c.by.Predict(ctx, request))(b)
			}
		})
	}
}
