package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that learns every id once. It predicts the number of labels so far.
type fake struct {
	hindsightv1.UnimplementedModelServiceServer
	hindsightv1.UnimplementedPredictionServiceServer

	mu      sync.Mutex
	ids     []string // of predictions and observations, as they came
	order   []string // of the observations that were learned
	waiting map[string]bool
	learned map[string]*hindsightv1.Outcome
	// fault is called before (done = false) and after every call. n counts calls from 1.
	fault func(n int, done bool) error
	calls int
	// forwarded returns the metadata of an observation of a model.
	forwarded func(model string) metadata.MD
}

// serve serves until the test ends, and returns a client.
func serve(t *testing.T, f *fake, options ...client.Option) *client.Client {
	t.Helper()
	var listen net.ListenConfig
	l := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	stop := f.start(l)
	options = append([]client.Option{client.WithRetry(client.Retry{Max: 3, Backoff: time.Millisecond})}, options...)
	c := must(client.Dial(l.Addr().String(), options...))(t)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		stop()
	})
	return c
}

// start serves until the function that it returns is called.
func (f *fake) start(l net.Listener) (stop func()) {
	f.waiting, f.learned = make(map[string]bool), make(map[string]*hindsightv1.Outcome)
	s := grpc.NewServer()
	hindsightv1.RegisterModelServiceServer(s, f)
	hindsightv1.RegisterPredictionServiceServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return func() { s.Stop(); <-done }
}

// reject is a rejection with a reason.
func reject(code codes.Code, reason string, more ...protoadapt.MessageV1) error {
	s, err := status.New(code, "rejected").WithDetails(append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: "hindsight"}}, more...)...)
	if err != nil {
		return err
	}
	return s.Err()
}

// after asks to wait.
func after(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// call makes a call that may be faulty.
func (f *fake) call(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	n := f.calls
	if f.fault != nil {
		if err := f.fault(n, false); err != nil {
			return err
		}
	}
	if err := do(); err != nil || f.fault == nil {
		return err
	}
	return f.fault(n, true)
}

// ImportModel returns the size of the model as its sequence.
func (f *fake) ImportModel(stream grpc.ClientStreamingServer[hindsightv1.ImportModelRequest, hindsightv1.ImportModelResponse]) error {
	m := &hindsightv1.Model{}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		m.Id, m.Sequence = r.GetId(), m.GetSequence()+uint64(len(r.GetChunk()))
	}
	return f.call(func() error { return stream.SendAndClose(&hindsightv1.ImportModelResponse{Model: m}) })
}

func (f *fake) Predict(_ context.Context, r *hindsightv1.PredictRequest) (answer *hindsightv1.PredictResponse, err error) {
	err = f.call(func() error {
		f.ids = append(f.ids, r.GetPredictionId())
		f.waiting[r.GetPredictionId()] = true
		value := float64(len(f.learned))
		answer = &hindsightv1.PredictResponse{Prediction: &hindsightv1.Prediction{PredictionId: r.GetPredictionId(), Value: &value}}
		return nil
	})
	return answer, err
}

func (f *fake) Observe(ctx context.Context, r *hindsightv1.ObserveRequest) (answer *hindsightv1.ObserveResponse, err error) {
	if f.forwarded != nil {
		_ = grpc.SetTrailer(ctx, f.forwarded(r.GetModel()))
	}
	err = f.call(func() error {
		id := r.GetPredictionId() + r.GetObservationId()
		f.ids = append(f.ids, id)
		if before := f.learned[id]; before != nil {
			answer = &hindsightv1.ObserveResponse{Outcome: &hindsightv1.Outcome{Sequence: before.GetSequence(), Duplicate: true}}
			return nil
		}
		if r.GetPredictionId() != "" && !f.waiting[id] {
			return reject(codes.NotFound, "PREDICTION_NOT_FOUND")
		}
		f.order = append(f.order, id)
		f.learned[id] = &hindsightv1.Outcome{Sequence: uint64(len(f.order))}
		answer = &hindsightv1.ObserveResponse{Outcome: f.learned[id]}
		return nil
	})
	return answer, err
}

func (f *fake) PredictBatch(_ context.Context, r *hindsightv1.PredictBatchRequest) (*hindsightv1.PredictBatchResponse, error) {
	answer := &hindsightv1.PredictBatchResponse{}
	for _, id := range r.GetPredictionIds() {
		answer.Predictions = append(answer.Predictions, &hindsightv1.Prediction{PredictionId: id})
	}
	return answer, nil
}

func (f *fake) ObserveBatch(ctx context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		one, err := f.Observe(ctx, o)
		if err != nil {
			return nil, err
		}
		answer.Outcomes = append(answer.Outcomes, one.GetOutcome())
	}
	return answer, nil
}

func (f *fake) ListModels(_ context.Context, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	switch r.GetPageToken() {
	case "":
		return &hindsightv1.ListModelsResponse{Models: []*hindsightv1.Model{{Id: "a"}, {Id: "b"}}, NextPageToken: "b"}, nil
	case "b":
		return &hindsightv1.ListModelsResponse{Models: []*hindsightv1.Model{{Id: "c"}}, NextPageToken: r.GetPrefix()}, nil
	default:
		return nil, reject(codes.InvalidArgument, "INVALID_REQUEST")
	}
}

func (f *fake) WatchModel(r *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
	for n := range uint64(3) {
		event := &hindsightv1.WatchModelResponse{Event: &hindsightv1.WatchModelResponse_Stats{Stats: &hindsightv1.ModelStats{Model: r.GetModel(), Observations: n}}}
		if err := s.Send(event); err != nil {
			return err
		}
	}
	return reject(codes.NotFound, "MODEL_NOT_FOUND")
}

// must returns the value of a call, and ends the test if the call failed.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}
