package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
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

// listen answers a listener of a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	return l
}

// The first server that answers is used, and the next one after a failure.
func TestServersOfACluster(t *testing.T) {
	dead, a, b := listen(t), listen(t), listen(t)
	require.NoError(t, dead.Close())
	first, second := &fake{}, &fake{}
	stopFirst, stopSecond := first.start(a), second.start(b)
	defer stopSecond()
	list := strings.Join([]string{dead.Addr().String(), a.Addr().String(), " " + b.Addr().String()}, ",")
	c, err := client.Dial(list, client.WithRetry(client.Retry{Max: 3, Backoff: time.Millisecond}), client.WithToken(client.TokenText("t")))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // the test is over
	assert.Equal(t, strings.ReplaceAll(list, " ", ""), c.Address())
	m := c.Model("m")
	// No retry is needed to find a server.
	_, err = c.With(client.Retry{}).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
	require.True(t, err == nil && first.calls == 1, "%v, %d calls", err, first.calls)
	stopFirst()
	for n := 1; n <= 2; n++ {
		_, err := m.Observe(t.Context(), &hindsightv1.ObserveRequest{Features: []float64{1}, Target: client.Label(1)})
		assert.True(t, err == nil && second.calls == n, "%v, %d calls", err, second.calls)
	}
}

// Once calls of a name were forwarded, the client sends further calls of its group to the other
// servers in turn, until it finds the owner.
func TestOwnersOfGroups(t *testing.T) {
	owned := map[int]map[string]bool{0: {"a": true}, 2: {"b": true, "c": true}} // Server 1 owns nothing.
	group := map[string]string{"a": "1", "b": "2", "c": "2"}
	var list []string
	var fakes []*fake
	for n := range 3 {
		f, l := &fake{}, listen(t)
		f.forwarded = func(model string) metadata.MD {
			if name, _, _ := strings.Cut(model, "."); !owned[n][name] {
				return metadata.Pairs("hindsight-forwarded", group[name])
			}
			return nil
		}
		defer f.start(l)()
		fakes, list = append(fakes, f), append(list, l.Addr().String())
	}
	c := must(client.Dial(strings.Join(list, ",")))(t)
	defer c.Close() //nolint:errcheck // the test is over
	observe := func(model string, want ...int) {
		t.Helper()
		_, err := c.Model(model).Observe(t.Context(), &hindsightv1.ObserveRequest{Features: []float64{1}, Target: client.Label(1)})
		require.NoError(t, err)
		for n, f := range fakes {
			assert.Equal(t, want[n], f.calls, n)
		}
	}
	observe("a", 1, 0, 0)
	observe("b.v1", 2, 0, 0)
	observe("b.v2", 2, 1, 0)
	observe("b.v1", 2, 1, 1)
	observe("a", 3, 1, 1)
	observe("c", 4, 1, 1) // The client does not know the group of c.
	observe("c", 4, 1, 2)
	owned[1], owned[2] = owned[2], nil // The ownership moves.
	observe("b", 4, 1, 3)
	observe("c", 5, 1, 3)
	observe("b", 5, 2, 3)
	observe("c", 5, 3, 3)
	owned[0], owned[1] = map[string]bool{"b": true}, nil // The ownership moves again.
	observe("b", 5, 4, 3)
	observe("b", 5, 4, 4)
	observe("b", 6, 4, 4)
	observe("b", 7, 4, 4)
}

// The client leaves a server that knows no owner, or does not answer, for the next server.
func TestServersThatFail(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	for name, fault := range map[string]func(int, bool) error{
		"no owner": func(int, bool) error { return reject(codes.Unavailable, "NOT_OWNER", after(time.Millisecond)) },
		"silent":   func(int, bool) error { <-over; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t), listen(t)
			first, second := &fake{fault: fault}, &fake{}
			defer first.start(a)()
			defer second.start(b)()
			c, err := client.Dial(a.Addr().String()+","+b.Addr().String(), client.WithTimeout(10*time.Second),
				client.WithRetry(client.Retry{Max: 1, Backoff: time.Millisecond}))
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // the test is over
			ctx := t.Context()
			for n := range 3 {
				_, err := c.Model("m").Observe(ctx, &hindsightv1.ObserveRequest{Features: []float64{1}, Target: client.Label(1)})
				assert.NoError(t, err, n)
			}
			assert.Equal(t, 3, second.calls)
		})
	}
}

func TestListsOfServers(t *testing.T) {
	for list, want := range map[string]string{
		"a,b:7":          "a:50051,b:7",
		"::1,[::2]:7":    "[::1]:50051,[::2]:7",
		"a,":             "",
		"a,unix:/h.sock": "",
		"a,http://b":     "",
	} {
		c, err := client.Dial(list)
		assert.Equal(t, (want != ""), (err == nil), "%v %v", list, err)
		if err != nil {
			continue
		}
		assert.Equal(t, want, c.Address(), list)
		assert.NoError(t, c.Close())
	}
	_, err := client.Dial("localhost,example.com", client.WithToken(client.TokenText("t")))
	assert.True(t, err != nil && strings.Contains(err.Error(), "in plaintext"), "a token to another machine: %v", err)
}

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
