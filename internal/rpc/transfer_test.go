package rpc_test

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

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
	for s.server.Stats().RequestBytes > 0 { // The handler ends with its call.
		runtime.Gosched()
	}
	s.export(t, "waits")
}
