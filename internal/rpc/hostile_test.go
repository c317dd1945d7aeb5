package rpc_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
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
