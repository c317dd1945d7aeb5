package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// local is a connection from within the process.
func (s *service) local(t *testing.T) *rpc.Local {
	t.Helper()
	return s.server.Local()
}

// A call from within the process is answered and rejected as one from outside.
func TestLocalCalls(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	within := s.local(t)
	predict := func(features ...float64) *hindsightv1.PredictRequest {
		return &hindsightv1.PredictRequest{Model: "m", Features: features, Remember: proto.Bool(false)}
	}
	for name, c := range map[string]struct {
		method   string
		request  proto.Message
		response func() proto.Message
	}{
		"a prediction":      {hindsightv1.PredictionService_Predict_FullMethodName, predict(1, 2), func() proto.Message { return new(hindsightv1.PredictResponse) }},
		"a wrong dimension": {hindsightv1.PredictionService_Predict_FullMethodName, predict(1), func() proto.Message { return new(hindsightv1.PredictResponse) }},
		"a model":           {hindsightv1.ModelService_GetModel_FullMethodName, &hindsightv1.GetModelRequest{Model: "m"}, func() proto.Message { return new(hindsightv1.GetModelResponse) }},
		"no model":          {hindsightv1.ModelService_GetModel_FullMethodName, &hindsightv1.GetModelRequest{Model: "x"}, func() proto.Message { return new(hindsightv1.GetModelResponse) }},
	} {
		inside, outside := c.response(), c.response()
		insideErr := within.Invoke(t.Context(), c.method, c.request, inside)
		outsideErr := s.connection.Invoke(t.Context(), c.method, c.request, outside)
		assert.True(t, sameStatus(insideErr, outsideErr) && proto.Equal(inside, outside), "%s: from within %v, %v; from outside %v, %v", name, inside, insideErr, outside, outsideErr)
	}
}

// sameStatus compares what errors say, of details what is in them.
func sameStatus(a, b error) bool {
	x, y := status.Convert(a), status.Convert(b)
	return x.Code() == y.Code() && x.Message() == y.Message() && slices.EqualFunc(x.Details(), y.Details(), func(d, e any) bool {
		m, ok := d.(proto.Message)
		n, also := e.(proto.Message)
		return ok && also && proto.Equal(m, n)
	})
}

// What the gRPC server does before the interceptors holds too.
func TestLocalLimits(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	within := hindsightv1.NewPredictionServiceClient(s.local(t))
	_, err := within.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 1<<17)})
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = within.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})
	assert.Equal(t, codes.Canceled, status.Code(err), "a call that was given up: %v", err)
	ctx, cancel = context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err = within.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "a call without time: %v", err)
	err = s.local(t).Invoke(t.Context(), "/hindsight.v1.PredictionService/Guess", &hindsightv1.PredictRequest{}, &hindsightv1.PredictResponse{})
	assert.Equal(t, codes.Unimplemented, status.Code(err), "an unknown method: %v", err)
}

// Streams end with the server.
func TestLocalStreams(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	within := hindsightv1.NewModelServiceClient(s.local(t))
	stream, err := within.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "m"})
	require.NoError(t, err)
	size := 0
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		size += len(piece.GetChunk())
	}
	assert.NotEqual(t, 0, size, "nothing was exported")
	// Drain ends an open stream, and rejects others.
	watch := must(within.WatchModel(t.Context(), &hindsightv1.WatchModelRequest{Model: "m"}))(t)
	must(watch.Recv())(t)
	s.server.Drain(t.Context())
	for err == nil {
		_, err = watch.Recv()
	}
	assert.Equal(t, "SHUTTING_DOWN", reason(status.Convert(err)), err)
	_, err = within.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "m"})
	assert.Equal(t, "SHUTTING_DOWN", reason(status.Convert(err)), "a stream after the end: %v", err)
}

// A connection from outside needs the server's credentials, one from within does not.
func TestLocalNeedsNoTLS(t *testing.T) {
	s := serve(t, func(o *rpc.Options) { o.Credentials = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}) })
	within := hindsightv1.NewModelServiceClient(s.local(t))
	if _, err := within.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: linear(2)}); err != nil {
		t.Errorf("a unary call: %v", err)
	}
	stream, err := within.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "m"})
	if err == nil {
		_, err = stream.Recv()
	}
	assert.NoError(t, err)
	outside := hindsightv1.NewModelServiceClient(s.connection)
	_, err = outside.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	assert.Equal(t, codes.Unavailable, status.Code(err), "plaintext from outside: %v", err)
}

// A server answers until it drains, also one that says that it does not serve.
func TestAnswersFromWithin(t *testing.T) {
	s := serve(t)
	within := s.local(t)
	assert.NoError(t, within.Answers(t.Context()))
	s.server.StopServing()
	assert.NoError(t, within.Answers(t.Context()))
	s.server.Drain(t.Context())
	assert.Error(t, within.Answers(t.Context()), "a server that has drained answers")
}
