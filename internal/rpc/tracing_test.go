package rpc_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// counted counts rejections.
type counted struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counted) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[reason]++
}

// Rejections are counted by their reason, and every counted reason is among Reasons.
func TestRejectionsAreCounted(t *testing.T) {
	c := &counted{by: map[string]int{}}
	s := serve(t, func(o *rpc.Options) { o.Rejected = c.count })
	s.create(t, "m", linear(1))
	_, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"})
	assert.Error(t, err, "a model that is not there predicts")
	_, err = s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})
	assert.Error(t, err, "two features of one")
	for model, want := range map[string]codes.Code{"none": codes.NotFound, "m": codes.OK} {
		_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: model, Features: []float64{1}, Target: label(1)})
		assert.Equal(t, want, status.Code(err), "%s: %v", model, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[string]int{"MODEL_NOT_FOUND": 2, "DIMENSION_MISMATCH": 1}
	known := rpc.Reasons()
	for reason, n := range c.by {
		assert.True(t, want[reason] == n && slices.Contains(known, reason), "%s was counted %d times, want %d", reason, n, want[reason])
	}
	assert.Len(t, c.by, len(want), "counted, want %v", want)
	slices.Sort(known)
	assert.True(t, len(slices.Compact(known)) == len(rpc.Reasons()) && slices.Contains(known, "UNAUTHENTICATED"), "reasons %v", known)
}

// The queue of an observation is in the span of its call. A line of a rejected call says its trace.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	core, lines := observer.New(zap.DebugLevel)
	s := serve(t, func(o *rpc.Options) {
		o.Tracer, o.Log = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), zap.New(core)
	})
	s.create(t, "m", linear(1))
	must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1}, Target: label(1)}))(t)
	_, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"})
	require.Error(t, err, "a model that is not there predicts")
	s.end()
	byName := map[string][]sdk.ReadOnlySpan{}
	for _, span := range spans.Ended() {
		byName[span.Name()] = append(byName[span.Name()], span)
	}
	const service = "hindsight.v1.PredictionService/"
	observed, rejected := byName[service+"Observe"], byName[service+"Predict"]
	require.True(t, len(observed) == 1 && len(rejected) == 1 && len(byName["queue"]) == 1, "spans %v", byName)
	assert.True(t, byName["queue"][0].Parent().SpanID() == observed[0].SpanContext().SpanID(), "the queue is of another span")
	found := lines.FilterMessage("call rejected").FilterFieldKey("trace_id").All()
	if len(found) != 1 || found[0].ContextMap()["trace_id"] != rejected[0].SpanContext().TraceID().String() ||
		found[0].ContextMap()["span_id"] != rejected[0].SpanContext().SpanID().String() {
		t.Errorf("lines %v", found)
	}
}
