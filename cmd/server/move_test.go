package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// again starts the server again at its address, after it was killed.
func (p *process) again(t *testing.T, dir string) *process {
	t.Helper()
	return launch(t, dir, "--grpc-address", p.address())
}

// takes tells whether the server takes observations of the model.
func (p *process) takes(t *testing.T) bool {
	t.Helper()
	r, err := p.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	if status.Code(err) == codes.NotFound {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.GetModel().GetMove() == nil
}

// follower is a client that tries again, and goes where a model was moved to.
type follower struct {
	predictor  hindsightv1.PredictionServiceClient
	connection *grpc.ClientConn
	// elsewhere counts what the other server answered.
	elsewhere *atomic.Int64
}

// newFollower is a client over a connection.
func newFollower(connection *grpc.ClientConn) *follower {
	return &follower{predictor: hindsightv1.NewPredictionServiceClient(connection), elsewhere: new(atomic.Int64)}
}

func insecureTransport() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

// try makes a call until it is answered.
func (f *follower) try(call func(hindsightv1.PredictionServiceClient) error) error {
	for {
		err := call(f.predictor)
		if err == nil && f.connection != nil {
			f.elsewhere.Add(1)
		}
		if err == nil || !f.goOn(err) {
			return err
		}
	}
}

// goOn tells whether to make the call again, and where.
func (f *follower) goOn(err error) bool {
	if status.Code(err) == codes.Unavailable {
		return true
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == "MODEL_MOVED" && f.connection == nil {
			connection, err := grpc.NewClient(info.GetMetadata()["address"], insecureTransport())
			if err != nil {
				return false
			}
			f.connection, f.predictor = connection, hindsightv1.NewPredictionServiceClient(connection)
			return true
		}
	}
	return false
}

func (f *follower) close() error {
	if f.connection == nil {
		return nil
	}
	return f.connection.Close()
}

// load predicts and observes: every second observation is the label of the prediction
// before.
func (f *follower) load(ctx context.Context, k, n int, learned func()) error {
	last := ""
	for i := range n {
		x := []float64{float64(i % 7), float64(k)}
		var predicted *hindsightv1.PredictResponse
		err := f.try(func(c hindsightv1.PredictionServiceClient) (err error) {
			predicted, err = c.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: x})
			return err
		})
		if err != nil {
			return fmt.Errorf("prediction %d: %w", i, err)
		}
		o := &hindsightv1.ObserveRequest{Model: "m", Target: &hindsightv1.ObserveRequest_Label{Label: 1}}
		if i%2 == 1 {
			o.PredictionId = last
		} else {
			o.Features, o.ObservationId = x, fmt.Sprint("o-", k, "-", i)
		}
		err = f.try(func(c hindsightv1.PredictionServiceClient) error {
			_, err := c.Observe(ctx, o)
			return err
		})
		if err != nil {
			return fmt.Errorf("observation %d: %w", i, err)
		}
		learned()
		last = predicted.GetPrediction().GetPredictionId()
	}
	return nil
}

// A model is moved while clients predict and observe. Nothing that was
// acknowledged is lost, nothing is learned twice, and the labels of predictions that the
// first server made find them on the second.
func TestMoveUnderLoad(t *testing.T) {
	const clients, each = 4, 150
	a, b := launch(t, t.TempDir()), launch(t, t.TempDir())
	a.create(t)
	var learned, elsewhere atomic.Int64
	third := make(chan struct{})
	failures := make(chan error, clients)
	for k := range clients {
		go func() {
			f := follower{predictor: a.predictor, elsewhere: &elsewhere}
			err := f.load(t.Context(), k, each, func() {
				if learned.Add(1) == clients*each/3 {
					close(third)
				}
			})
			failures <- errors.Join(err, f.close())
		}()
	}
	select {
	case <-third:
	case err := <-failures:
		t.Fatal(err)
	}
	for _, step := range []string{"begun", "imported", "complete"} {
		moveStep(t, step, a, b)
	}
	for range clients {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if b.stats(t).GetObservations() != clients*each || elsewhere.Load() == 0 || a.takes(t) {
		t.Errorf("%d observations, want %d; %d calls answered by the second server", b.stats(t).GetObservations(), clients*each, elsewhere.Load())
	}
	for k := range clients {
		for i := 0; i < each; i += 2 {
			o := &hindsightv1.ObserveRequest{
				Model: "m", Features: []float64{float64(i % 7), float64(k)}, ObservationId: fmt.Sprint("o-", k, "-", i),
				Target: &hindsightv1.ObserveRequest_Label{Label: 1},
			}
			if again, err := b.predictor.Observe(t.Context(), o); err != nil || !again.GetOutcome().GetDuplicate() {
				t.Fatalf("observation %d of %d again: %v, %v", i, k, again, err)
			}
		}
	}
	imported, err := b.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	if err != nil || a.stats(t).GetStateDigest() != imported.GetModel().GetImported().GetStateDigest() {
		t.Errorf("the state of the first server is not what was moved: %v, %v", imported, err)
	}
}

// moveStep does one step of a move.
func moveStep(t *testing.T, step string, a, b *process) {
	t.Helper()
	mask := &fieldmaskpb.FieldMask{Paths: []string{"move"}}
	update := func(m *hindsightv1.Move) {
		if _, err := a.models.UpdateModel(t.Context(), &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "m", Move: m}, UpdateMask: mask}); err != nil {
			t.Fatal(err)
		}
	}
	switch step {
	case "begun":
		update(&hindsightv1.Move{Address: b.address()})
	case "half sent":
		data := a.export(t)
		stream, err := b.models.ImportModel(t.Context())
		if err == nil {
			err = stream.Send(&hindsightv1.ImportModelRequest{Id: "m", Chunk: data[:len(data)/2]})
		}
		if err != nil {
			t.Fatal(err)
		}
	case "imported":
		stream, err := b.models.ImportModel(t.Context())
		if err == nil {
			err = stream.Send(&hindsightv1.ImportModelRequest{Id: "m", Chunk: a.export(t)})
		}
		if err == nil {
			_, err = stream.CloseAndRecv()
		}
		if err != nil {
			t.Fatal(err)
		}
	case "complete":
		update(&hindsightv1.Move{Address: b.address(), Complete: true})
	}
}

// export is the model in one piece.
func (p *process) export(t *testing.T) (data []byte) {
	t.Helper()
	stream, err := p.models.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "m"})
	for err == nil {
		var r *hindsightv1.ExportModelResponse
		if r, err = stream.Recv(); err == nil {
			data = append(data, r.GetChunk()...)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return data
}

// Both servers are killed after each step of a move whose client was killed there too. At
// most one takes observations then, and the remaining steps complete the move.
func TestKillsDuringMove(t *testing.T) {
	steps := []string{"begun", "half sent", "imported", "complete"}
	for n, last := range steps {
		t.Run(last, func(t *testing.T) {
			dirA, dirB := t.TempDir(), t.TempDir()
			a, b := launch(t, dirA, "--grpc-address", freePort(t)), launch(t, dirB, "--grpc-address", freePort(t))
			a.create(t)
			a.learn(t, 0, 40)
			want := a.stats(t)
			for _, step := range steps[:n+1] {
				moveStep(t, step, a, b)
			}
			a.kill(t)
			b.kill(t)
			a, b = a.again(t, dirA), b.again(t, dirB)
			imported := n >= 2
			if a.takes(t) || b.takes(t) != imported {
				t.Fatalf("the first server takes observations: %v, the second: %v", a.takes(t), b.takes(t))
			}
			remaining := map[string][]string{"begun": {"imported", "complete"}, "half sent": {"imported", "complete"}, "imported": {"complete"}}
			for _, step := range remaining[last] {
				moveStep(t, step, a, b)
			}
			if a.takes(t) || !b.takes(t) {
				t.Fatal("the move is not complete")
			}
			if got := b.stats(t); got.GetStateDigest() != want.GetStateDigest() {
				t.Errorf("moved %v, want %v", got, want)
			}
			if again, err := b.predictor.Observe(t.Context(), observation(7)); err != nil || !again.GetOutcome().GetDuplicate() {
				t.Errorf("an observation again: %v, %v", again, err)
			}
			_, err := a.predictor.Observe(t.Context(), observation(1000))
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("an observation at the first server: %v", err)
			}
		})
	}
}
