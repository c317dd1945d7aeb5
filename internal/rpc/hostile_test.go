package rpc_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// A connection on which nothing is sent is closed. Other clients are answered.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("it waits for the timeout of the handshake: set HINDSIGHT_E2E")
	}
	s := serve(t)
	s.create(t, "m", linear(1))
	dialer := net.Dialer{Timeout: 5 * time.Second}
	var silent []net.Conn
	for range 50 {
		c := must(dialer.DialContext(t.Context(), "tcp", s.connection.CanonicalTarget()[len("dns:///"):]))(t)
		silent = append(silent, c)
	}
	assert.NoError(t, errOf(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})))
	for _, c := range silent {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		// The server may send its settings first.
		_, err := io.Copy(io.Discard, c)
		assert.False(t, errors.Is(err, os.ErrDeadlineExceeded), "a silent connection stays open")
		assert.NoError(t, c.Close())
	}
}

// A message that is too large is rejected before it is read, and the connection
// goes on.
func TestOversizedMessage(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	_, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 1<<18)})
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	assert.NoError(t, errOf(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})))
}

// transport is one of a client that speaks HTTP/2 without TLS.
func transport(t *testing.T) *http.Transport {
	t.Helper()
	out := &http.Transport{Protocols: new(http.Protocols)}
	out.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(out.CloseIdleConnections)
	return out
}

// A call of which only a part comes ends when its time is over, and gives back
// what it held.
func TestHalfSentCallsEnd(t *testing.T) {
	s := serve(t, func(o *rpc.Options) { rpc.CallTimeout(o, 200*time.Millisecond) })
	client := transport(t)
	const size = 512 << 10
	// A message of this size is announced, and half of it sent. The writer stays open.
	half := append([]byte{0, 0, size >> 16, 0, 0}, make([]byte, size/2)...)
	for _, method := range []string{
		hindsightv1.PredictionService_Predict_FullMethodName,
		hindsightv1.PredictionService_ObserveBatch_FullMethodName,
		hindsightv1.ModelService_CreateModel_FullMethodName,
		hindsightv1.ModelService_ImportModel_FullMethodName,
	} {
		body, more := io.Pipe()
		go func() { _, _ = more.Write(half) }() // It ends with the body.
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.connection.CanonicalTarget()[len("dns:///"):]+method, body))(t)
		r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
		began := time.Now()
		response, err := client.RoundTrip(r)
		require.NoError(t, err, method)
		assert.NoError(t, errOf(io.Copy(io.Discard, response.Body)), method)
		took, code := time.Since(began), response.Header.Get("Grpc-Status")+response.Trailer.Get("Grpc-Status")
		want := strconv.Itoa(int(codes.DeadlineExceeded))
		assert.True(t, code == want && took >= 200*time.Millisecond, "%s: status %q after %v", method, code, took)
		assert.NoError(t, errors.Join(response.Body.Close(), body.Close()))
	}
	assert.EqualValues(t, 0, s.server.RequestBytes())
}

// Models that are sent in share their memory. One alone may take more.
func TestTransfersAreBounded(t *testing.T) {
	const limit = 64 << 10
	s := serve(t, func(o *rpc.Options) { o.MemoryLimit = 8 * limit })
	begin := func(id string, size int) hindsightv1.ModelService_ImportModelClient {
		stream := must(s.models.ImportModel(t.Context()))(t)
		require.NoError(t, stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: make([]byte, size)}))
		return stream
	}
	first := begin("first", 2*limit)
	// The server takes the first chunk while it is alone, and then rejects others.
	for deadline := time.Now().Add(3 * time.Minute); s.server.RequestBytes() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	assert.EqualValues(t, 2*limit, s.server.RequestBytes())
	rejected(t, errOf(begin("second", 1).CloseAndRecv()), codes.ResourceExhausted, "OVERLOADED", "in progress")
	// Other calls have an account of their own.
	s.create(t, "m", linear(1))
	rejected(t, errOf(first.CloseAndRecv()), codes.InvalidArgument, "INVALID_REQUEST", "chunk")
	rejected(t, errOf(begin("second", 1).CloseAndRecv()), codes.InvalidArgument, "INVALID_REQUEST", "chunk")
	assert.EqualValues(t, 0, s.server.RequestBytes())
}

// Requests in progress share their memory. One alone is always taken.
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
		require.NoError(t, errOf(s.PredictBatch(t.Context(), batch)), n)
	}
	var group sync.WaitGroup
	var turnedAway atomic.Bool
	for range 4 {
		group.Go(func() {
			for deadline := time.Now().Add(20 * time.Second); !turnedAway.Load() && time.Now().Before(deadline); {
				_, err := s.PredictBatch(t.Context(), batch)
				if err != nil {
					rejected(t, err, codes.ResourceExhausted, "OVERLOADED", "in progress")
					turnedAway.Store(true)
				}
			}
		})
	}
	group.Wait()
	assert.True(t, turnedAway.Load(), "no call was turned away")
	assert.NoError(t, errOf(s.PredictBatch(t.Context(), batch)))
}

// An export for which there is no room is rejected before its bytes are made: those of the
// state, and those of the predictions that wait.
func TestExportIsRejectedBeforeItsBytesAreMade(t *testing.T) {
	const limit, rows, width = 3 << 20, 20, 100
	s := serve(t, func(o *rpc.Options) { o.MemoryLimit = 8 * limit })
	s.create(t, "wide", linear(1000)) // A state of 4 MB at least.
	s.create(t, "waits", linear(width))
	for range 125 { // 2 MB of features.
		r := &hindsightv1.PredictBatchRequest{Model: "waits"}
		for range rows {
			r.Rows = append(r.Rows, &hindsightv1.Row{Features: make([]float64, width)})
		}
		must(s.PredictBatch(t.Context(), r))(t)
	}
	whole := len(s.export(t, "waits"))
	require.True(t, whole >= limit/2 && whole <= limit, "an export of %d bytes, the room is %d", whole, limit)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unread := must(s.models.ExportModel(ctx, &hindsightv1.ExportModelRequest{Model: "waits"}))(t)
	if _, err := unread.Recv(); err != nil { // It is under way.
		t.Fatal(err)
	}
	// The store reads what it has of the one before the reservation fails.
	for model, most := range map[string]uint64{"wide": limit, "waits": 3 * limit} {
		made := uint64(math.MaxUint64)
		for range 4 { // The store's own work can only add to an attempt.
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			stream, err := s.models.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: model})
			if err == nil {
				_, err = stream.Recv()
			}
			runtime.ReadMemStats(&after)
			rejected(t, err, codes.ResourceExhausted, "OVERLOADED", "in progress")
			made = min(made, after.TotalAlloc-before.TotalAlloc)
		}
		t.Logf("%s: rejected after %d bytes", model, made)
		assert.True(t, made <= most, "%s: %d bytes were made for an export that was rejected, want at most %d", model, made, most)
	}
	cancel()
	for s.server.RequestBytes() > 0 { // The handler ends with its call.
		runtime.Gosched()
	}
	s.export(t, "waits")
}
