package rpc_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// counted counts refusals.
type counted struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counted) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[reason]++
}

// session sends requests in one session and gives the answers.
func (s *service) session(ctx context.Context, t *testing.T, requests ...*hindsightv1.SessionRequest) (answers []*hindsightv1.SessionResponse) {
	t.Helper()
	stream, err := s.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answers
		}
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
}

func observeIn(model string) *hindsightv1.SessionRequest {
	return &hindsightv1.SessionRequest{Call: &hindsightv1.SessionRequest_Observe{
		Observe: &hindsightv1.ObserveRequest{Model: model, Features: []float64{1}, Target: label(1)},
	}}
}

// Refusals are counted by their reason, in calls and in sessions, and every reason that is
// told is among Reasons.
func TestRefusalsAreCounted(t *testing.T) {
	c := &counted{by: map[string]int{}}
	s := serve(t, func(o *rpc.Options) { o.Refused = c.count })
	s.create(t, "m", linear(1))
	if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"}); err == nil {
		t.Error("a model that is not there predicts")
	}
	if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}}); err == nil {
		t.Error("two features of one")
	}
	if answers := s.session(t.Context(), t, observeIn("none"), observeIn("m"), new(hindsightv1.SessionRequest)); len(answers) != 3 {
		t.Errorf("%d answers", len(answers))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[string]int{"MODEL_NOT_FOUND": 2, "DIMENSION_MISMATCH": 1, "INVALID_REQUEST": 1}
	known := rpc.Reasons()
	for reason, n := range c.by {
		if want[reason] != n || !slices.Contains(known, reason) {
			t.Errorf("%s was counted %d times, want %d", reason, n, want[reason])
		}
	}
	if len(c.by) != len(want) {
		t.Errorf("counted %v, want %v", c.by, want)
	}
	if slices.Sort(known); len(slices.Compact(known)) != len(rpc.Reasons()) || !slices.Contains(known, "UNAUTHENTICATED") {
		t.Errorf("reasons %v", known)
	}
}

// A call of a session has a trace of its own, linked to the span of the session. A line
// of a call that is refused says its trace.
func TestSpansOfASession(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	core, lines := observer.New(zap.DebugLevel)
	s := serve(t, func(o *rpc.Options) {
		o.Tracer, o.Log = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), zap.New(core)
	})
	s.create(t, "m", linear(1))
	s.session(t.Context(), t, observeIn("m"), observeIn("none"))
	if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"}); err == nil {
		t.Fatal("a model that is not there predicts")
	}
	s.end()
	byName := map[string][]sdk.ReadOnlySpan{}
	for _, span := range spans.Ended() {
		byName[span.Name()] = append(byName[span.Name()], span)
	}
	const service = "hindsight.v1.PredictionService/"
	session, calls, refused := byName[service+"Session"], byName[service+"Session/Observe"], byName[service+"Predict"]
	if len(session) != 1 || len(calls) != 2 || len(refused) != 1 || len(byName["queue"]) != 1 {
		t.Fatalf("spans %v", byName)
	}
	for _, call := range calls {
		if links := call.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != session[0].SpanContext().SpanID() {
			t.Errorf("links %v", links)
		}
		if call.SpanContext().TraceID() == session[0].SpanContext().TraceID() || call.Parent().IsValid() {
			t.Error("a call is in the trace of its session")
		}
	}
	queue := byName["queue"][0].Parent().SpanID()
	if !slices.ContainsFunc(calls, func(c sdk.ReadOnlySpan) bool { return c.SpanContext().SpanID() == queue }) {
		t.Error("the queue is of another span")
	}
	found := lines.FilterMessage("call refused").FilterFieldKey("trace_id").All()
	if len(found) != 1 || found[0].ContextMap()["trace_id"] != refused[0].SpanContext().TraceID().String() ||
		found[0].ContextMap()["span_id"] != refused[0].SpanContext().SpanID().String() {
		t.Errorf("lines %v", found)
	}
}
