package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/cli"
)

// actAsServer is the environment variable that makes the test binary a server.
const actAsServer = "HINDSIGHT_FAKE_SERVER"

// programs is a directory for programs that tests build.
var programs string

func TestMain(m *testing.M) {
	if mode := os.Getenv(actAsServer); mode != "" {
		os.Exit(serverMain(mode))
	}
	var err error
	if programs, err = os.MkdirTemp("", "hindsight-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(programs); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// fake is a server whose models predict the mean of the labels so far. It learns
// every id once, like the real server.
type fake struct {
	hindsightv1.UnimplementedModelServiceServer
	hindsightv1.UnimplementedPredictionServiceServer

	mu     sync.Mutex
	models map[string]*fakeModel
	calls  map[string]int
	order  []string // the ids of the calls that had an effect
	// stats and prediction change answers before they are sent.
	stats      func(*hindsightv1.ModelStats)
	prediction func(*hindsightv1.Prediction)
	outcome    func(learner string, o *hindsightv1.Outcome)
	batched    []fakeInput // of PredictBatch
	// fault is called before (done = false) and after every Predict and Observe.
	// n counts the calls of its kind from 1.
	fault func(call string, n int, done bool) error
	// maxRows is how many rows a batch may have, 0: any number.
	maxRows int
}

type fakeModel struct {
	model       *hindsightv1.Model
	predictions map[string]*fakePrediction
	outcomes    map[string]*fakeOutcome
	ids         []string
	labels      []float64
	classes     []string // of a classifier, those that were observed
	lossSum     float64
	rounds      []fakeRound
}

type fakePrediction struct {
	fakeInput
	value float64
	class string
}

type fakeOutcome struct {
	fakeInput
	label   float64
	class   string
	outcome *hindsightv1.Outcome
}

// RestoreModel says what would be undone, and undoes nothing.
func (f *fake) RestoreModel(_ context.Context, r *hindsightv1.RestoreModelRequest) (*hindsightv1.RestoreModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.models[r.GetModel()]
	if m == nil || !r.GetValidateOnly() {
		return nil, status.Error(codes.Unimplemented, "the fake restores nothing")
	}
	return &hindsightv1.RestoreModelResponse{Model: m.model, Undone: m.model.GetSequence() - r.GetSequence()}, nil
}

func newFake() *fake { return &fake{models: make(map[string]*fakeModel), calls: make(map[string]int)} }

// start serves until the test ends.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop := f.serve(l)
	t.Cleanup(stop)
	return l.Addr().String()
}

func (f *fake) serve(l net.Listener, options ...grpc.ServerOption) func() {
	s := grpc.NewServer(options...)
	hindsightv1.RegisterModelServiceServer(s, f)
	hindsightv1.RegisterPredictionServiceServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return func() { s.Stop(); <-done }
}

func reject(code codes.Code, reason, message string, fields ...string) error {
	s := status.New(code, message)
	details := &errdetails.BadRequest{}
	for _, f := range fields {
		details.FieldViolations = append(details.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: f, Description: "not so"})
	}
	with, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "hindsight"}, details)
	if err != nil {
		return err
	}
	return with.Err()
}

func (f *fake) model(id string) (*fakeModel, error) {
	if m := f.models[id]; m != nil {
		return m, nil
	}
	return nil, reject(codes.NotFound, "MODEL_NOT_FOUND", "no model "+strconv.Quote(id))
}

func (f *fake) CreateModel(_ context.Context, r *hindsightv1.CreateModelRequest) (*hindsightv1.CreateModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.GetSpec().GetDimension() < 1 && len(r.GetSpec().GetInputs()) == 0 {
		return nil, reject(codes.InvalidArgument, "INVALID_SPEC", "bad spec", "spec.dimension")
	}
	if m := f.models[r.GetId()]; m != nil {
		if !proto.Equal(m.model.GetSpec(), r.GetSpec()) {
			return nil, reject(codes.AlreadyExists, "MODEL_EXISTS", "model exists")
		}
		return &hindsightv1.CreateModelResponse{Model: m.model}, nil
	}
	m := &fakeModel{
		model: &hindsightv1.Model{
			Id: r.GetId(), Spec: r.GetSpec(), Learner: "running_mean",
			CreateTime: timestamppb.New(time.Unix(1e9, 0)),
		},
		predictions: make(map[string]*fakePrediction),
		outcomes:    make(map[string]*fakeOutcome),
	}
	f.models[r.GetId()] = m
	return &hindsightv1.CreateModelResponse{Model: m.model}, nil
}

func (f *fake) GetModel(_ context.Context, r *hindsightv1.GetModelRequest) (*hindsightv1.GetModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.GetModelResponse{Model: proto.CloneOf(m.model)}, nil
}

// ListModels answers two models in a page.
func (f *fake) ListModels(_ context.Context, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &hindsightv1.ListModelsResponse{}
	for _, id := range slices.Sorted(maps.Keys(f.models)) {
		switch {
		case !strings.HasPrefix(id, r.GetPrefix()) || id <= r.GetPageToken():
		case len(answer.GetModels()) == 2:
			answer.NextPageToken = answer.GetModels()[1].GetId()
			return answer, nil
		default:
			answer.Models = append(answer.Models, proto.CloneOf(f.models[id].model))
		}
	}
	return answer, nil
}

func (f *fake) DeleteModel(_ context.Context, r *hindsightv1.DeleteModelRequest) (*hindsightv1.DeleteModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.model(r.GetModel()); err != nil {
		return nil, err
	}
	delete(f.models, r.GetModel())
	return &hindsightv1.DeleteModelResponse{}, nil
}

func (f *fake) ValidateSpec(_ context.Context, r *hindsightv1.ValidateSpecRequest) (*hindsightv1.ValidateSpecResponse, error) {
	return &hindsightv1.ValidateSpecResponse{Spec: r.GetSpec(), Features: 1, StateBytes: 1 << 60, PredictFlops: 1, ObserveFlops: 2}, nil
}

func (f *fake) GetModelStats(_ context.Context, r *hindsightv1.GetModelStatsRequest) (*hindsightv1.GetModelStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(fmt.Append(nil, m.ids, m.labels, m.classes))
	stats := &hindsightv1.ModelStats{
		Model: r.GetModel(), Learner: "running_mean", Observations: uint64(len(m.ids)),
		LossSum: m.lossSum, Regret: proto.Float64(m.regret()), RegretBound: proto.Float64(m.regret() + 1), CertificateOk: proto.Bool(true), Certified: true,
		Features: 1, StateDigest: hex.EncodeToString(digest[:]), Durability: "sync",
	}
	m.setFigures(stats)
	if r.GetIncludeEffectiveDimension() {
		one := 1.0
		stats.EffectiveDimension = &one
	}
	if r.GetIncludeHindsightPath() {
		stats.HindsightPath = []float64{64, 32, 16, 8, 4, 2.5}
	}
	if f.stats != nil {
		f.stats(stats)
	}
	return &hindsightv1.GetModelStatsResponse{Stats: stats}, nil
}

func (m *fakeModel) mean() float64 {
	var sum float64
	for _, y := range m.labels {
		sum += y
	}
	return sum / float64(max(1, len(m.labels)))
}

// regret is the regret against the best constant.
func (m *fakeModel) regret() float64 {
	mean, best := m.mean(), 0.0
	for _, y := range m.labels {
		best += (y - mean) * (y - mean)
	}
	return m.lossSum - best
}

func (f *fake) Predict(_ context.Context, r *hindsightv1.PredictRequest) (*hindsightv1.PredictResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["predict"]++
	n := f.calls["predict"]
	if err := f.faulty("predict", n, false); err != nil {
		return nil, err
	}
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	input := fakeInput{r.GetFeatures(), r.GetInputs()}
	if err := m.checkInput(input); err != nil {
		return nil, err
	}
	id := cmp.Or(r.GetPredictionId(), "p"+strconv.Itoa(n))
	if m.outcomes[id] != nil {
		return nil, reject(codes.AlreadyExists, "OBSERVATION_CONFLICT", "its label has been observed")
	}
	p := m.predictions[id]
	if p == nil {
		p = &fakePrediction{input, m.mean(), m.majority()}
		m.predictions[id] = p
		f.order = append(f.order, "predict "+id)
	}
	if !p.equal(input) {
		return nil, reject(codes.AlreadyExists, "OBSERVATION_CONFLICT", "other features")
	}
	if r.Remember != nil && !r.GetRemember() {
		delete(m.predictions, id)
		id = ""
	}
	prediction := &hindsightv1.Prediction{PredictionId: id, Value: &p.value, StateSequence: uint64(len(m.ids))}
	if m.model.GetSpec().GetClasses() != nil {
		prediction.Value, prediction.Class, prediction.Scores = nil, p.class, m.shares()
	}
	if r.GetExplain() {
		prediction.Explanation = []*hindsightv1.FamilyPart{
			{Family: "linear", Weights: []float64{0.75}, Contributions: []float64{2.25}},
			{Family: "keys", Weights: []float64{0.25}, Contributions: []float64{0.5}, Keys: []*hindsightv1.KeyPart{
				{Input: "user", Contributions: []float64{0.75}}, {Input: "shop", Contributions: []float64{-0.25}},
			}},
			{Family: "rest", Weights: []float64{0}, Contributions: []float64{-0.0625}},
		}
	}
	if f.prediction != nil {
		f.prediction(prediction)
	}
	return &hindsightv1.PredictResponse{Prediction: prediction}, f.faulty("predict", n, true)
}

func (f *fake) Observe(_ context.Context, r *hindsightv1.ObserveRequest) (*hindsightv1.ObserveResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["observe"]++
	n := f.calls["observe"]
	if err := f.faulty("observe", n, false); err != nil {
		return nil, err
	}
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	outcome, err := m.learn(r)
	if err != nil {
		return nil, err
	}
	if !outcome.GetDuplicate() {
		f.order = append(f.order, "observe "+cmp.Or(r.GetPredictionId(), r.GetObservationId()))
	}
	return &hindsightv1.ObserveResponse{Outcome: outcome}, f.faulty("observe", n, true)
}

func (m *fakeModel) learn(r *hindsightv1.ObserveRequest) (*hindsightv1.Outcome, error) {
	id := cmp.Or(r.GetPredictionId(), r.GetObservationId())
	if before := m.outcomes[id]; before != nil {
		given := fakeInput{r.GetFeatures(), r.GetInputs()}
		if before.label != r.GetLabel() || before.class != r.GetClass() || given.given() && !before.equal(given) {
			return nil, reject(codes.AlreadyExists, "OBSERVATION_CONFLICT", "another label")
		}
		again := proto.CloneOf(before.outcome)
		again.Duplicate = true
		return again, nil
	}
	p := m.predictions[r.GetPredictionId()]
	if p == nil && r.GetPredictionId() != "" {
		return nil, reject(codes.NotFound, "PREDICTION_NOT_FOUND", "no such prediction")
	}
	input := fakeInput{r.GetFeatures(), r.GetInputs()}
	if p != nil {
		input = p.fakeInput
	} else if p = m.predictions[id]; p != nil && !p.equal(input) {
		return nil, reject(codes.AlreadyExists, "OBSERVATION_CONFLICT", "predicted with other features")
	}
	if err := m.checkInput(input); err != nil {
		return nil, err
	}
	if (r.GetClass() != "") != (m.model.GetSpec().GetClasses() != nil) {
		return nil, reject(codes.InvalidArgument, "LABEL_MISSING", "a label of another kind")
	}
	m.ids = append(m.ids, strings.TrimLeft(id, "abcdef0123456789r")) // The id without the run.
	outcome := m.outcome(r, p)
	if id != "" {
		m.outcomes[id] = &fakeOutcome{input, r.GetLabel(), r.GetClass(), outcome}
	}
	m.model.Sequence = uint64(len(m.ids))
	return outcome, nil
}

// outcome learns a label.
func (m *fakeModel) outcome(r *hindsightv1.ObserveRequest, p *fakePrediction) *hindsightv1.Outcome {
	if r.GetClass() != "" {
		return m.classOutcome(r.GetClass(), p)
	}
	prediction := m.mean()
	loss := square(r.GetLabel() - prediction)
	m.lossSum += loss
	m.rounds = append(m.rounds, m.round(r.GetLabel(), p))
	m.labels = append(m.labels, r.GetLabel())
	outcome := &hindsightv1.Outcome{
		Sequence: uint64(len(m.labels)), Prediction: &prediction, Loss: &loss, Regret: proto.Float64(m.regret()),
		SetAside: math.Abs(r.GetLabel()) >= 1e6,
	}
	if p != nil {
		outcome.ServedPrediction, outcome.ServedLoss = &p.value, proto.Float64(square(r.GetLabel()-p.value))
	}
	m.recent(outcome)
	return outcome
}

func (f *fake) faulty(call string, n int, done bool) error {
	if f.fault == nil {
		return nil
	}
	return f.fault(call, n, done)
}

// serverMain is the server program for the demo.
func serverMain(mode string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if mode == "broken" {
		fmt.Fprintln(os.Stderr, "no disk")
		return 7
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	defer newFake().serve(l)()
	h, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	web := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "# HELP x\ngo_goroutines 3\nhindsight_observations_total{model=\"demo\"} 50\nhindsight_latency_bucket{le=\"1\"} 2\n")
		}),
	}
	go func() { _ = web.Serve(h) }()
	defer web.Close() //nolint:errcheck // the process ends
	line, _ := json.Marshal(map[string]any{
		"level": "info", "msg": "serving", "grpc_address": l.Addr().String(), "http_address": h.Addr().String(),
	})
	fmt.Fprintf(os.Stderr, "{\"msg\":\"opening\"}\n%s\n", line)
	<-ctx.Done()
	if mode == "rude" {
		return 9
	}
	return 0
}

// result is the result of a command line.
type result struct {
	code        int
	out, errors string
}

// run runs a command line.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t.Context(), "", args...)
}

func runWith(ctx context.Context, stdin string, args ...string) result {
	var out, errs bytes.Buffer
	code := cli.Run(ctx, "v1", args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// document runs a command line with --json and returns its one document.
func document(t *testing.T, want int, args ...string) map[string]any {
	t.Helper()
	r := run(t, append(args, "--json")...)
	require.Equal(t, want, r.code, "%v %v %v", args, r.out, r.errors)
	return decode(t, r.out)
}

func decode(t *testing.T, out string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(out))
	var document map[string]any
	require.NoError(t, d.Decode(&document), out)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF, out)
	return document
}
