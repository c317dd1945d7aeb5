package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"hindsight/cmd/server/internal/book"
	"hindsight/cmd/server/internal/config"
	"hindsight/cmd/server/internal/tracing"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// maxScrapes is how many scrapes are answered at once.
const maxScrapes = 4

// newCalls counts and times the calls, in classic and in native buckets.
func newCalls() *grpcprom.ServerMetrics {
	return grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramOpts(&prometheus.HistogramOpts{
		Buckets:                     prometheus.ExponentialBuckets(10e-6, 4, 10),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	})))
}

// exemplars give the sampled trace of a call to what counts and times it.
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

// watch connects the instruments with the engine, the store and gRPC.
func watch(
	registry *prometheus.Registry, instruments *metrics.Metrics, calls *grpcprom.ServerMetrics,
	models *engine.Engine, disk *store.Store,
) error {
	if err := registry.Register(calls); err != nil {
		return fmt.Errorf("instruments of gRPC: %w", err)
	}
	if err := instruments.WatchModels(models); err != nil {
		return fmt.Errorf("instruments of models: %w", err)
	}
	if err := metrics.Watch(instruments, models.Totals); err != nil {
		return fmt.Errorf("instruments of the engine: %w", err)
	}
	if err := metrics.Watch(instruments, disk.Metrics); err != nil {
		return fmt.Errorf("instruments of the store: %w", err)
	}
	return nil
}

// limits are what the settings bound; 0 is no limit.
type limits struct {
	PendingLabels int   `metric:"hindsight_pending_labels_all_limit,positive" help:"Most predictions of all models that may wait for their label: --max-pending-total."`
	Queue         int   `metric:"hindsight_queued_observations_limit,positive" help:"Most observations that may wait for one model: --queue."`
	Models        int   `metric:"hindsight_models_limit,positive" help:"Most models: --max-models."`
	ModelBytes    int64 `metric:"hindsight_models_memory_limit_bytes,positive" help:"Most memory that the states of all models may take before idle ones leave it: half of --memory-limit. Absent without a limit."`
}

// watchCalls shows what calls hold, and what the settings bound.
func watchCalls(instruments *metrics.Metrics, c config.Config, server *rpc.Server) error {
	bounds := limits{PendingLabels: c.MaxPendingTotal, Queue: c.Queue, Models: c.MaxModels, ModelBytes: c.MemoryLimit / 2}
	err := errors.Join(
		metrics.Watch(instruments, server.Stats),
		metrics.Watch(instruments, func() limits { return bounds }))
	if err != nil {
		return fmt.Errorf("instruments of calls: %w", err)
	}
	return nil
}

// openTracing opens tracing and shows its figures. It is nil when tracing is off.
func openTracing(ctx context.Context, c config.Config, log *zap.Logger, instruments *metrics.Metrics) (*tracing.Tracing, error) {
	spans, err := tracing.Open(ctx, tracing.Options{Endpoint: c.OTLPEndpoint, Env: os.LookupEnv, Version: version, Log: log.Named("tracing")})
	if err != nil {
		return nil, err
	}
	err = metrics.Watch(instruments, spans.Stats)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("instruments of tracing: %w", err), spans.Close(ctx))
	}
	return spans, nil
}

// closeTracing exports the last spans. What is lost of them is no failure of the server.
func closeTracing(ctx context.Context, spans *tracing.Tracing, log *zap.Logger) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
	defer cancel()
	if err := spans.Close(limit); err != nil {
		log.Warn("the last spans were not exported", zap.Error(err))
	}
}

// serving is whether the server takes calls.
type serving struct {
	Ready bool `metric:"hindsight_ready" help:"1 while the server serves, 0 while it starts or drains."`
}

// routes are /metrics, /healthz (the process answers), /readyz (the server serves and
// is not draining), /debug/loglevel, /debug/pprof/ if it is asked for, /docs if there is a
// directory for it, and the front's.
// The guard lets to /metrics and /debug. Traced offers the format of scrapes that has exemplars.
func routes(c config.Config, registry *prometheus.Registry, instruments *metrics.Metrics, open *front, level http.Handler, traced bool, guard *gateway.Guard) (http.Handler, error) {
	// The default level takes half as long again and saves a sixth of the bytes.
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("compression of scrapes: %w", err)
	}
	err = metrics.Watch(instruments, func() serving { return serving{open.ready.Load()} })
	if err != nil {
		return nil, fmt.Errorf("instruments of the server: %w", err)
	}
	mux := http.NewServeMux()
	// The series name all models.
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(registry, guard.Require(auth.Read, compress(scrapes(instruments, traced)))))
	answer := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // An error means that the prober has left.
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if open.ready.Load() {
			answer(w, http.StatusOK, "ready\n")
			return
		}
		answer(w, http.StatusServiceUnavailable, "starting or draining\n")
	})
	administrator := func(next http.Handler) http.Handler { return guard.Require(auth.Admin, next) }
	mux.Handle("/debug/loglevel", administrator(level))
	if c.Pprof {
		profiles(mux, administrator)
	}
	if c.DocsDir != "" {
		pages, err := book.Handler(c.DocsDir)
		if err != nil {
			return nil, fmt.Errorf("--docs-dir: %w", err)
		}
		mux.Handle("GET "+book.Path, pages)
	}
	mux.Handle("/", open)
	return mux, nil
}

// scrapes answers in the format that the scraper prefers. The text format has
// a way of its own, which is many times faster than that of all others. OpenMetrics is
// offered where calls are traced, because it alone has exemplars beside protobuf:
// Prometheus prefers it, and it has no such way.
func scrapes(instruments *metrics.Metrics, traced bool) http.Handler {
	general := promhttp.HandlerFor(instruments, promhttp.HandlerOpts{DisableCompression: true, EnableOpenMetrics: traced})
	places := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, fmt.Sprintf("%d scrapes are in progress, try again later.", maxScrapes), http.StatusServiceUnavailable)
			return
		}
		formats := expfmt.DefaultAcceptedFormats()
		if traced {
			formats = expfmt.DefaultOpenMetricsAcceptedFormats()
		}
		format := expfmt.NegotiateAccept(r.Header, formats...)
		if format.FormatType() != expfmt.TypeTextPlain || r.URL.Query().Has("name[]") {
			general.ServeHTTP(w, r)
			return
		}
		scrape, err := instruments.Scrape()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", string(format))
		w.Header().Add("Vary", "Accept")
		_ = scrape.WriteText(w) // An error means that the scraper has left.
	})
}
