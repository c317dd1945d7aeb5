package rpc_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// Who connects and says nothing is cut off, and others do not notice.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.create(t, "m", linear(1))
	dialer := net.Dialer{Timeout: 5 * time.Second}
	var silent []net.Conn
	for range 50 {
		c, err := dialer.DialContext(t.Context(), "tcp", s.connection.CanonicalTarget()[len("dns:///"):])
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	if _, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Id: "m"}); err != nil {
		t.Error(err)
	}
	for _, c := range silent {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		// The server may say its settings first.
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a silent connection stays open")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is larger than a message may be is refused before it is read, and the
// connection goes on.
func TestOversizedMessage(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	_, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 1<<18)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("2 MiB: %v", err)
	}
	many := &hindsightv1.PredictBatchRequest{Model: "m"}
	for range 101 {
		many.Rows = append(many.Rows, &hindsightv1.Row{Features: []float64{1}})
	}
	_, err = s.PredictBatch(t.Context(), many)
	refused(t, err, codes.InvalidArgument, "BATCH_TOO_LARGE", "101 rows")
	if _, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Id: "m"}); err != nil {
		t.Error(err)
	}
}

// With no memory left, a session that may hold something is ended and told why: it
// has sent no whole message, and its connection much. One that is used, one of a
// connection that sends nothing, and calls that are whole, go on.
func TestFullMemoryEndsWhatMayHoldIt(t *testing.T) {
	s := serve(t, func(o *rpc.Options) { o.MemoryLimit = 1 })
	s.create(t, "m", linear(1))
	used, err := s.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	idle, err := s.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := grpc.NewClient(s.connection.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	quiet, err := hindsightv1.NewPredictionServiceClient(other).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := idle.Recv()
		ended <- err
	}()
	predict := func(session hindsightv1.PredictionService_SessionClient) {
		t.Helper()
		err := session.Send(&hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Predict{
			Predict: &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := session.Recv(); err != nil || r.GetPrediction() == nil {
			t.Fatalf("%v, %v", r, err)
		}
	}
	deadline := time.After(20 * time.Second)
	for n := 0; ; n++ {
		predict(used)
		if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}}); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		select {
		case err = <-ended:
			refused(t, err, codes.ResourceExhausted, "OVERLOADED", "memory is full")
			predict(quiet)
			return
		case <-deadline:
			t.Fatal("a session that may hold something goes on")
		default:
		}
	}
}

// Requests in progress share their memory; one alone is always taken.
func TestRequestsInProgressAreBounded(t *testing.T) {
	const dimension = 50
	s := serve(t, func(o *rpc.Options) { o.MemoryLimit = 512 << 10 })
	s.create(t, "m", linear(dimension))
	forgotten := false
	batch := &hindsightv1.PredictBatchRequest{Model: "m", Remember: &forgotten}
	for range 100 {
		batch.Rows = append(batch.Rows, &hindsightv1.Row{Features: make([]float64, dimension)})
	}
	for n := range 100 {
		if _, err := s.PredictBatch(t.Context(), batch); err != nil {
			t.Fatalf("call %d, alone: %v", n, err)
		}
	}
	var group sync.WaitGroup
	var turnedAway atomic.Bool
	for range 4 {
		group.Go(func() {
			for deadline := time.Now().Add(20 * time.Second); !turnedAway.Load() && time.Now().Before(deadline); {
				_, err := s.PredictBatch(t.Context(), batch)
				if err != nil {
					refused(t, err, codes.ResourceExhausted, "OVERLOADED", "in progress")
					turnedAway.Store(true)
				}
			}
		})
	}
	group.Wait()
	if !turnedAway.Load() {
		t.Error("no call was turned away")
	}
	if _, err := s.PredictBatch(t.Context(), batch); err != nil {
		t.Errorf("alone again: %v", err)
	}
}
