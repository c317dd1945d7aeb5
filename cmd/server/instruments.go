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
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
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

// count makes the counters of calls and of the cluster.
func (s *server) count() error {
	s.observed = newCalls()
	refusals, err := s.instruments.Refusals(slices.Concat(gateway.Reasons(), rpc.Reasons()))
	err = errors.Join(err, s.registry.Register(s.observed))
	if s.config.ClusterAddress != "" {
		err = errors.Join(err, s.replicated.watch(s.instruments))
	}
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	s.refused = refusals.Count
	return nil
}

// watch connects the instruments to the models and to the gRPC server.
func (s *server) watch(models *groups, server *rpc.Server) error {
	var backupsErr error
	if s.config.BackupTo != "" {
		backupsErr = metrics.WatchParts(s.instruments, models.backups)
	}
	err := errors.Join(backupsErr, s.instruments.WatchModels(models), s.watchCalls(server),
		metrics.WatchParts(s.instruments, models.totals), metrics.WatchParts(s.instruments, models.disks))
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	return nil
}

// limits are the limits of the settings; 0 is no limit.
type limits struct {
	PendingLabels int   `metric:"hindsight_pending_labels_all_limit,positive" help:"Most pending predictions of all models: --max-pending-total."`
	Queue         int   `metric:"hindsight_queued_observations_limit,positive" help:"Most observations waiting for one model: --queue."`
	Models        int   `metric:"hindsight_models_limit,positive" help:"Most models: --max-models."`
	ModelBytes    int64 `metric:"hindsight_models_memory_limit_bytes,positive" help:"Most memory of the states of all models: half of --memory-limit. Absent without a limit."`
}

// watchCalls shows the memory of calls, and the limits.
func (s *server) watchCalls(server *rpc.Server) error {
	c := s.config
	bounds := limits{PendingLabels: c.MaxPendingTotal, Queue: c.Queue, Models: c.MaxModels, ModelBytes: c.MemoryLimit / 2}
	return errors.Join(
		metrics.Watch(s.instruments, server.Stats),
		metrics.Watch(s.instruments, func() limits { return bounds }))
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

// serving shows server.isReady.
type serving struct {
	Ready bool `metric:"hindsight_ready" help:"1 while the server serves, 0 while it starts or drains, or cannot take part in its cluster."`
}
