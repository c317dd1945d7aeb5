package hosted

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// tracer names the spans of the engine.
const tracer = "hindsight/internal/engine"

// TraceID is the id of the sampled trace of a context, empty without one.
func TraceID(ctx context.Context) string {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		return s.TraceID().String()
	}
	return ""
}

// StartSpan starts a child of the context's span. Neither start nor end costs anything unless the
// latter is recorded.
func StartSpan(ctx context.Context, name string) trace.Span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return parent
	}
	_, span := parent.TracerProvider().Tracer(tracer).Start(ctx, name)
	return span
}

// stages are the moments of an observation. The commit notes them, and Wait makes spans of them.
type stages struct {
	id string
	// The turn began at turn. The record was appended from append to learn, which are zero if nothing was
	// appended, and learned from learn to learned.
	turn, append, learn, learned time.Time
}

// trace is the id of the trace, empty without one.
func (s *stages) trace() string {
	if s == nil {
		return ""
	}
	return s.id
}

// report makes spans of the stages of a call accepted at a time, below the span of the context.
func (s *stages) report(ctx context.Context, accepted time.Time) {
	parent := trace.SpanFromContext(ctx)
	if s == nil || !parent.IsRecording() {
		return
	}
	spans := parent.TracerProvider().Tracer(tracer)
	report := func(name string, from, to time.Time) {
		if from.IsZero() || to.IsZero() {
			return
		}
		_, span := spans.Start(ctx, name, trace.WithTimestamp(from))
		span.End(trace.WithTimestamp(to))
	}
	report("queue", accepted, s.turn)
	report("commit", s.append, s.learn)
	report("learn", s.learn, s.learned)
}
