package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type noTimings struct{}

func (noTimings) Predict(float64, string) {}
func (noTimings) Observe(float64, string) {}

// service is a server on a real listener and its clients.
type service struct {
	hindsightv1.PredictionServiceClient
	models  hindsightv1.ModelServiceClient
	cluster hindsightv1.ClusterServiceClient
	health  healthv1.HealthClient
	server  *rpc.Server
	// connection is what the clients speak through.
	connection *grpc.ClientConn
	// end ends the server. It ends with the test otherwise.
	end func()
}

func serve(tb testing.TB, settings ...func(*rpc.Options)) *service {
	tb.Helper()
	return serveOver(tb, vfs.NewMem(), func(*engine.Options) {}, settings...)
}

// serveOver is serve over a file system, with an engine of other options.
func serveOver(tb testing.TB, fs vfs.FS, set func(*engine.Options), settings ...func(*rpc.Options)) *service {
	tb.Helper()
	s := must(store.Open("data", store.Options{FS: fs}))(tb)
	var ids atomic.Int64
	o := engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 10_000, PendingLimit: 10_000, PendingTotalLimit: 1_000_000, ModelMemory: 64 << 20},
			Store:  s, Now: time.Now, Log: zap.NewNop(),
			NewID:          func() (string, error) { return fmt.Sprint("p-", ids.Add(1)), nil },
			SnapshotReplay: 10 * time.Millisecond, SnapshotInterval: time.Hour, SnapshotsKept: 2, LabelTTL: time.Hour,
		},
		Timings:       func(string, string) engine.Timings { return noTimings{} },
		ForgetTimings: func(string, string) {}, Durability: "sync",
		IDWindow: time.Hour, IDWindowMin: 1000, ModelLimit: 1000, Sweep: time.Hour,
	}
	set(&o)
	e := must(engine.Open(tb.Context(), o))(tb)
	options := rpc.Options{
		Groups: rpc.Single(e, nil), Log: zap.NewNop(),
		MaxMessageBytes: 1 << 20, MaxBatchRows: 100,
	}
	for _, set := range settings {
		set(&options)
	}
	server := rpc.New(options)
	var listen net.ListenConfig
	listener := must(listen.Listen(tb.Context(), "tcp", "127.0.0.1:0"))(tb)
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // A test that makes no call may end first.
		}
		served <- err
	}()
	connection := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(tb)
	var once sync.Once
	end := func() {
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		closers := []func() error{
			connection.Close,
			func() error { server.Drain(limit); return <-served },
			e.Close, s.Close,
		}
		for _, c := range closers {
			assert.NoError(tb, c())
		}
	}
	tb.Cleanup(func() { once.Do(end) })
	return &service{
		end:                     func() { once.Do(end) },
		PredictionServiceClient: hindsightv1.NewPredictionServiceClient(connection),
		models:                  hindsightv1.NewModelServiceClient(connection),
		cluster:                 hindsightv1.NewClusterServiceClient(connection),
		health:                  healthv1.NewHealthClient(connection),
		server:                  server,
		connection:              connection,
	}
}

func linear(dimension int32) *hindsightv1.ModelSpec {
	return &hindsightv1.ModelSpec{
		Dimension: dimension, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}},
	}
}

func unscaled() *hindsightv1.Scaling {
	return &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_None{None: &hindsightv1.NoScaling{}}}
}

func (s *service) create(tb testing.TB, id string, spec *hindsightv1.ModelSpec) *hindsightv1.Model {
	tb.Helper()
	r := must(s.models.CreateModel(tb.Context(), &hindsightv1.CreateModelRequest{Id: id, Spec: spec}))(tb)
	return r.GetModel()
}

func label(y float64) *hindsightv1.ObserveRequest_Label {
	return &hindsightv1.ObserveRequest_Label{Label: y}
}

// rejected checks code and reason, and that the message says every word.
func rejected(t *testing.T, err error, code codes.Code, reason string, words ...string) {
	t.Helper()
	s := status.Convert(err)
	var got string
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "hindsight" {
			got = info.GetReason()
		}
	}
	assert.True(t, s.Code() == code && got == reason, "rejected with %v %q (%v), want %v %q", s.Code(), got, err, code, reason)
	for _, w := range words {
		assert.Contains(t, s.Message(), w)
	}
}

func TestRound(t *testing.T) {
	s := serve(t)
	m := s.create(t, "demo", &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}},
	})
	l := m.GetSpec().GetPkawvTaylor()
	assert.True(t, m.GetLearner() == "pkawv_taylor" && l.GetDegree() == 30 && l.GetSigma() == 1 && l.GetLambda() == 0.1 && l.GetMaxFeatures() == 512, "defaults: %v", m)
	p := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "demo", Features: []float64{0.1, -0.4}}))(t)
	request := &hindsightv1.ObserveRequest{Model: "demo", PredictionId: p.GetPrediction().GetPredictionId(), Target: label(0)}
	first := must(s.Observe(t.Context(), request))(t)
	assert.True(t, first.GetOutcome().GetSequence() == 1 && first.GetOutcome().ServedPrediction != nil, "outcome %v", first)
	again := must(s.Observe(t.Context(), request))(t)
	assert.True(t, again.GetOutcome().GetDuplicate(), "a retry is answered %v", again)
	again.GetOutcome().Duplicate = false
	assert.True(t, proto.Equal(first, again), "a retry is answered %v, first %v", again, first)
	stats := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "demo", IncludeEffectiveDimension: true}))(t)
	if st := stats.GetStats(); st.GetObservations() != 1 || !st.GetCertificateOk() || len(st.GetStateDigest()) != 64 ||
		st.EffectiveDimension == nil || st.GetEffectiveDimension() <= 0 || st.GetFeatures() != 496 {
		t.Errorf("stats %v", st)
	}
}

func TestRejections(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	ctx := t.Context()
	create := func(id string, spec *hindsightv1.ModelSpec) error {
		return errOf(s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: id, Spec: spec}))
	}
	rejected(t, create("M", linear(1)), codes.InvalidArgument, "INVALID_ID", `"M"`)
	rejected(t, create("n", nil), codes.InvalidArgument, "INVALID_SPEC", "spec", "dimension")
	rejected(t, create("n", &hindsightv1.ModelSpec{Dimension: 1, Coverage: []float64{0.9, 0.9}}), codes.InvalidArgument, "INVALID_SPEC", "spec.coverage[1]", "0.9")
	rejected(t, create("n", linear(0)), codes.InvalidArgument, "INVALID_SPEC", "spec.dimension", "0")
	rejected(t, create("m", linear(3)), codes.AlreadyExists, "MODEL_EXISTS")
	rejected(t, create("n", &hindsightv1.ModelSpec{
		Dimension: 30, Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: proto.Int32(5)}},
	}), codes.InvalidArgument, "SPEC_TOO_LARGE", "degree", "at most 2")
	rejected(t, create("n", &hindsightv1.ModelSpec{
		Dimension: 1, Learner: &hindsightv1.ModelSpec_Raker{Raker: &hindsightv1.Raker{Step: proto.Float64(-1)}},
	}), codes.InvalidArgument, "INVALID_SPEC", "spec.raker.step", "-1")
	rejected(t, create("n", &hindsightv1.ModelSpec{Dimension: 1, Scaling: &hindsightv1.Scaling{}, Learner: linear(1).GetLearner()}),
		codes.InvalidArgument, "INVALID_SPEC", "spec.scaling", "fixed", "warmup")

	rejected(t, errOf(s.Predict(ctx, &hindsightv1.PredictRequest{Model: "n"})), codes.NotFound, "MODEL_NOT_FOUND")
	rejected(t, errOf(s.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}})), codes.InvalidArgument, "DIMENSION_MISMATCH", "1 number", "2 numbers")
	rejected(t, errOf(s.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, math.NaN()}})), codes.InvalidArgument, "NOT_FINITE", "features[1]")
	rejected(t, errOf(s.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 1e101}})), codes.InvalidArgument, "FEATURE_OUT_OF_RANGE", "features[1]")
	rejected(t, errOf(s.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 1}, LabelTtl: durationpb.New(-1)})),
		codes.InvalidArgument, "INVALID_REQUEST", "label_ttl")

	two := []float64{1, 2}
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: two})), codes.InvalidArgument, "LABEL_MISSING", "label")
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", PredictionId: "x", Target: label(1)})), codes.NotFound, "PREDICTION_NOT_FOUND", `"x"`)
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: two, Target: label(math.Inf(1))})), codes.InvalidArgument, "NOT_FINITE", "label")
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: two, Target: label(1), Weight: proto.Float64(0)})),
		codes.InvalidArgument, "WEIGHT_OUT_OF_RANGE", "weight")
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: two, Target: &hindsightv1.ObserveRequest_Class{Class: "a"}})),
		codes.InvalidArgument, "LABEL_KIND", "class", "number")
	rejected(t, errOf(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: two, Target: &hindsightv1.ObserveRequest_Class{}})),
		codes.InvalidArgument, "INVALID_CLASS", "class", "nothing")
}

func TestBatches(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	rows := []*hindsightv1.Row{{Features: []float64{1}}, {Features: []float64{2}}}
	predictions, err := s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Model: "m", Rows: rows})
	require.True(t, err == nil && len(predictions.GetPredictions()) == 2, "%v %v", predictions, err)
	var observations []*hindsightv1.ObserveRequest
	for n, p := range predictions.GetPredictions() {
		observations = append(observations, &hindsightv1.ObserveRequest{PredictionId: p.GetPredictionId(), Target: label(float64(n))})
	}
	observations = append(observations, proto.Clone(observations[0]).(*hindsightv1.ObserveRequest))
	outcomes := must(s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: observations}))(t)
	for n, want := range []uint64{1, 2, 1} {
		o := outcomes.GetOutcomes()[n]
		assert.True(t, o.GetSequence() == want && o.GetDuplicate() == (n == 2), "outcome %d: %v", n, o)
	}
	observations[1].Target = nil
	_, err = s.ObserveBatch(t.Context(), &hindsightv1.ObserveBatchRequest{Model: "m", Observations: observations})
	rejected(t, err, codes.InvalidArgument, "LABEL_MISSING", "observations[1].label")
	rows[1].Features = nil
	_, err = s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Model: "m", Rows: rows})
	rejected(t, err, codes.InvalidArgument, "DIMENSION_MISMATCH", "rows[1].features")
	_, err = s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Model: "m", Rows: make([]*hindsightv1.Row, 101)})
	rejected(t, err, codes.InvalidArgument, "BATCH_TOO_LARGE", "101 rows", "100")
	_, err = s.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Model: "m", Rows: rows, PredictionIds: []string{"a"}})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "prediction_ids")
}

// Every learner that is served can be created by name alone, is shown with its
// defaults, and learns.
func TestEveryLearner(t *testing.T) {
	s := serve(t)
	learners := new(hindsightv1.ModelSpec).ProtoReflect().Descriptor().Oneofs().ByName("learner").Fields()
	for i := range learners.Len() {
		name, spec := string(learners.Get(i).Name()), new(hindsightv1.ModelSpec)
		spec.ProtoReflect().Set(learners.Get(i), spec.ProtoReflect().NewField(learners.Get(i)))
		spec.Dimension = 2
		m := s.create(t, strings.ReplaceAll(name, "_", "-"), spec)
		assert.True(t, m.GetLearner() == name && !proto.Equal(m.GetSpec(), spec), "%s: %v", name, m)
		// The completed spec is itself a spec of the same model.
		s.create(t, m.GetId(), m.GetSpec())
		for n := range 40 {
			o := &hindsightv1.ObserveRequest{
				Model: m.GetId(), Features: []float64{float64(n % 3), float64(n % 5)}, Target: label(float64(n % 2)),
			}
			if m.GetSpec().GetClasses() != nil {
				o.Target = class(strconv.Itoa(n % 2))
			}
			if _, err := s.Observe(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n > 0 {
				continue
			}
			first, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: m.GetId()})
			assert.True(t, err == nil && (first.GetStats().Regret != nil) == (name != "kons"), "%s after one observation: %v (%v)", name, first, err)
		}
		stats := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: m.GetId(), IncludeEffectiveDimension: true}))(t)
		st := stats.GetStats()
		// Descent has a certificate and no guarantee.
		descent := slices.Contains([]string{"raker", "ada_raker", "fogd"}, name)
		absent := []bool{st.CertificateOk == nil, st.RegretBound == nil, (st.Certificate == nil) != descent}
		determinant := !slices.Contains([]string{"raker", "ada_raker", "fogd", "auto"}, name)
		assert.False(t, slices.Contains(absent, st.GetCertified()) || st.GetCertificateOk() != st.GetCertified() || (st.LogDeterminant != nil) != determinant, "%s: %v", name, st)
		assert.False(t, st.GetObservations() != 40 || (st.EffectiveDimension == nil) != (name == "auto") || (name != "auto" && st.GetEffectiveDimension() <= 0), "%s: %v", name, st)
		// The theorems hold behind the default scaling too. That of online Newton steps wants
		// a range, and first-order learners have none.
		without := []string{"raker", "ada_raker", "fogd", "fourier_kons", "pros_n_kons", "kons"}
		certified := !slices.Contains(without, name)
		assert.True(t, st.GetCertified() == certified && (st.GetDictionary() > 1) == (name == "pkawv_nystrom" || name == "pros_n_kons"), "%s: %v", name, st)
	}
}

func TestHealthFollowsDraining(t *testing.T) {
	s := serve(t)
	watch := must(s.health.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: hindsightv1.PredictionService_ServiceDesc.ServiceName}))(t)
	next := func() healthv1.HealthCheckResponse_ServingStatus {
		r := must(watch.Recv())(t)
		return r.GetStatus()
	}
	assert.Equal(t, healthv1.HealthCheckResponse_SERVING, next())
	limit, cancel := context.WithCancel(t.Context())
	var draining sync.WaitGroup
	draining.Go(func() { s.server.Drain(limit) })
	assert.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, next())
	cancel()
	draining.Wait()
}

// A model of several outputs answers lists where one of a single output
// answers numbers, and takes labels where that takes a label.
func TestSeveralOutputs(t *testing.T) {
	s := serve(t)
	spec := linear(1)
	spec.Outputs = 2
	spec.Scaling = &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_Fixed{Fixed: &hindsightv1.FixedScaling{LabelOffset: []float64{1, -1}}}}
	m := s.create(t, "two", spec)
	f := m.GetSpec().GetScaling().GetFixed()
	assert.True(t, f.GetLabelScale() == 1 && len(f.GetOffset()) == 1 && m.GetSpec().GetLinearAwv().GetForgetting() == 1, "defaults %v", m)
	p, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "two", Features: []float64{1}})
	require.NoError(t, err)
	prediction := p.GetPrediction()
	v := prediction.GetValues()
	assert.True(t, len(v) == 2 && v[0] == 1 && v[1] == -1 && prediction.Value == nil && len(prediction.GetStandardErrors()) == 0, "%v", prediction)
	labels := func(y ...float64) *hindsightv1.ObserveRequest {
		return &hindsightv1.ObserveRequest{
			Model: "two", PredictionId: prediction.GetPredictionId(),
			Target: &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: y}},
		}
	}
	rejected(t, errOf(s.Observe(t.Context(), labels(1))), codes.InvalidArgument, "DIMENSION_MISMATCH", "labels", "1 label", "2 labels")
	rejected(t, errOf(s.Observe(t.Context(), labels(1, math.NaN()))), codes.InvalidArgument, "NOT_FINITE", "labels[1]")
	answer := must(s.Observe(t.Context(), labels(3, -1)))(t)
	o := answer.GetOutcome()
	assert.True(t, o.GetLoss() == 4 && o.GetServedLoss() == 4 && len(o.GetPredictions()) == 2 && len(o.GetServedPredictions()) == 2 && o.Prediction == nil && o.ServedPrediction == nil, o)
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

// local are the unary calls from within the process, as a connection.
type local struct{ *rpc.Local }

func (local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

func (s *service) local() local { return local{s.server.Local()} }

// asked is a stream of one request from within the process. Responses go to take until take fails.
type asked[A any] struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // A grpc.ServerStream has its context.
	request proto.Message
	take    func(A) error
}

func (a asked[A]) Context() context.Context { return a.ctx }

func (a asked[A]) SendHeader(metadata.MD) error { return nil }

func (a asked[A]) RecvMsg(m any) error { proto.Merge(m.(proto.Message), a.request); return nil }

func (a asked[A]) SendMsg(m any) error { return a.take(m.(A)) }

func (s *service) watchWithin(ctx context.Context, model string, take func(*hindsightv1.WatchModelResponse) error) error {
	return s.server.Local().Stream(hindsightv1.ModelService_WatchModel_FullMethodName, asked[*hindsightv1.WatchModelResponse]{ctx: ctx, request: &hindsightv1.WatchModelRequest{Model: model}, take: take})
}

func (s *service) exportWithin(ctx context.Context, model string) (data []byte, err error) {
	err = s.server.Local().Stream(hindsightv1.ModelService_ExportModel_FullMethodName, asked[*hindsightv1.ExportModelResponse]{
		ctx: ctx, request: &hindsightv1.ExportModelRequest{Model: model}, take: func(r *hindsightv1.ExportModelResponse) error { data = append(data, r.GetChunk()...); return nil },
	})
	return data, err
}

// A stream from within the process ends with its time, though its client sends and takes something now and then.
func TestLocalStreamsEndWithTheirTime(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1000))
	within := func(call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := call(ctx)
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
	}
	within(func(ctx context.Context) error {
		return s.server.Local().Stream(hindsightv1.ModelService_ImportModel_FullMethodName, asked[*hindsightv1.ImportModelResponse]{
			ctx: ctx, request: &hindsightv1.ImportModelRequest{Id: "n", Chunk: []byte("HINDSNAP")},
		})
	})
	within(func(ctx context.Context) error {
		return s.server.Local().Stream(hindsightv1.ModelService_ExportModel_FullMethodName, asked[*hindsightv1.ExportModelResponse]{
			ctx: ctx, request: &hindsightv1.ExportModelRequest{Model: "m"},
			take: func(*hindsightv1.ExportModelResponse) error { <-ctx.Done(); return nil },
		})
	})
}

// A call from within the process is answered and rejected as one from outside.
func TestLocalCalls(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	within := s.local()
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
	within := hindsightv1.NewPredictionServiceClient(s.local())
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
	err = s.local().Invoke(t.Context(), "/hindsight.v1.PredictionService/Guess", &hindsightv1.PredictRequest{}, &hindsightv1.PredictResponse{})
	assert.Equal(t, codes.Unimplemented, status.Code(err), "an unknown method: %v", err)
}

// Watches end with the server.
func TestLocalStreams(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(2))
	assert.NotEmpty(t, must(s.exportWithin(t.Context(), "m"))(t))
	drained := make(chan struct{})
	err := s.watchWithin(t.Context(), "m", func(*hindsightv1.WatchModelResponse) error {
		go func() { s.server.Drain(context.WithoutCancel(t.Context())); close(drained) }()
		return nil
	})
	assert.Equal(t, "SHUTTING_DOWN", reason(status.Convert(err)), err)
	<-drained
}

// A server answers until it drains, also one that says that it does not serve.
func TestAnswersFromWithin(t *testing.T) {
	s := serve(t)
	within := s.local()
	assert.NoError(t, within.Answers(t.Context()))
	s.server.StopServing()
	assert.NoError(t, within.Answers(t.Context()))
	s.server.Drain(t.Context())
	assert.Error(t, within.Answers(t.Context()), "a server that has drained answers")
}

func errOf[T any](_ T, err error) error { return err }
