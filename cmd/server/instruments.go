package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"hindsight/cmd/server/internal/tracing"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// newCalls returns the counts and times of calls, in classic and in native buckets.
func newCalls() *grpcprom.ServerMetrics {
	return grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramOpts(&prometheus.HistogramOpts{
		Buckets:                     prometheus.ExponentialBuckets(10e-6, 4, 10),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	})))
}

// exemplars adds the sampled trace of a call to its count and time.
func exemplars(traced bool) []grpcprom.Option {
	if !traced {
		return nil
	}
	return []grpcprom.Option{grpcprom.WithExemplarFromContext(func(ctx context.Context) prometheus.Labels {
		if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
			return prometheus.Labels{"trace_id": s.TraceID().String()}
		}
		return nil
	})}
}

// lastSpans bounds the export of the last spans.
const lastSpans = 5 * time.Second

// watch connects the instruments with the engine, the store and gRPC. It returns the
// instruments of calls, and the counter of refusals by their reasons.
func (s *server) watch(models *engine.Engine, disk *store.Store) (*grpcprom.ServerMetrics, func(string), error) {
	calls := newCalls()
	refusals, err := s.instruments.Refusals(slices.Concat(gateway.Reasons(), rpc.Reasons()))
	err = errors.Join(err,
		s.registry.Register(calls), s.instruments.WatchModels(models),
		metrics.Watch(s.instruments, models.Totals), metrics.Watch(s.instruments, disk.Metrics))
	if err != nil {
		return nil, nil, fmt.Errorf("instruments: %w", err)
	}
	return calls, refusals.Count, nil
}

// limits are the limits of the settings; 0 is no limit.
type limits struct {
	PendingLabels int   `metric:"hindsight_pending_labels_all_limit,positive" help:"Most predictions of all models that may wait for their label: --max-pending-total."`
	Queue         int   `metric:"hindsight_queued_observations_limit,positive" help:"Most observations that may wait for one model: --queue."`
	Models        int   `metric:"hindsight_models_limit,positive" help:"Most models: --max-models."`
	ModelBytes    int64 `metric:"hindsight_models_memory_limit_bytes,positive" help:"Most memory that the states of all models may take before idle ones leave it: half of --memory-limit. Absent without a limit."`
}

// watchCalls shows the memory of calls, and the limits.
func (s *server) watchCalls(server *rpc.Server) error {
	c := s.config
	bounds := limits{PendingLabels: c.MaxPendingTotal, Queue: c.Queue, Models: c.MaxModels, ModelBytes: c.MemoryLimit / 2}
	err := errors.Join(
		metrics.Watch(s.instruments, server.Stats),
		metrics.Watch(s.instruments, func() limits { return bounds }))
	if err != nil {
		return fmt.Errorf("instruments of calls: %w", err)
	}
	return nil
}

// openTracing opens tracing, if it is on, and shows its figures.
func (s *server) openTracing(ctx context.Context) (err error) {
	s.spans, err = tracing.Open(ctx, tracing.Options{
		Endpoint: s.config.OTLPEndpoint, Env: os.LookupEnv, Version: version, Log: s.log.Named("tracing"),
	})
	if err != nil {
		return err
	}
	if err := metrics.Watch(s.instruments, s.spans.Stats); err != nil {
		return errors.Join(fmt.Errorf("instruments of tracing: %w", err), s.spans.Close(ctx))
	}
	return nil
}

// closeTracing exports the last spans. Losing spans is no failure of the server.
func (s *server) closeTracing(ctx context.Context) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
	defer cancel()
	if err := s.spans.Close(limit); err != nil {
		s.log.Warn("the last spans were not exported", zap.Error(err))
	}
}

// serving shows server.ready.
type serving struct {
	Ready bool `metric:"hindsight_ready" help:"1 while the server serves, 0 while it starts or drains."`
}
