package engine

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// tracer is the name that the spans of this package have in common.
const tracer = "hindsight/internal/engine"

// traceID is the id of the sampled trace of a context, empty without one.
func traceID(ctx context.Context) string {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		return s.TraceID().String()
	}
	return ""
}

// begin begins a span below that of the context. Where that is not recorded it costs
// nothing, and neither does the end.
func begin(ctx context.Context, name string) trace.Span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return parent
	}
	_, span := parent.TracerProvider().Tracer(tracer).Start(ctx, name)
	return span
}

// stages are the moments of an observation's way through its model's turn. The commit
// notes them, and the caller makes spans of them when it has its answer.
type stages struct {
	// id is that of the trace.
	id string
	// turn is when the turn began. The record was appended between append and
	// learn, which is zero if nothing was appended, and learned from learn to learned.
	turn, append, learn, learned time.Time
}

// trace is the id of the trace, empty without one.
func (s *stages) trace() string {
	if s == nil {
		return ""
	}
	return s.id
}

// tell makes spans of the stages of a call that was accepted at a moment, below the span
// of the context.
func (s *stages) tell(ctx context.Context, accepted time.Time) {
	parent := trace.SpanFromContext(ctx)
	if s == nil || !parent.IsRecording() {
		return
	}
	spans := parent.TracerProvider().Tracer(tracer)
	tell := func(name string, from, to time.Time) {
		if from.IsZero() || to.IsZero() {
			return
		}
		_, span := spans.Start(ctx, name, trace.WithTimestamp(from))
		span.End(trace.WithTimestamp(to))
	}
	tell("queue", accepted, s.turn)
	tell("commit", s.append, s.learn)
	tell("learn", s.learn, s.learned)
}
