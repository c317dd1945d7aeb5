package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"hindsight/cmd/server/internal/offsite"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// maxScrapes is how many scrapes are answered at once.
const maxScrapes = 4

// watch connects the instruments with the engine, the store and gRPC.
func watch(
	registry *prometheus.Registry, instruments *metrics.Metrics, calls *grpcprom.ServerMetrics,
	models *engine.Engine, disk *store.Store,
) error {
	if err := registry.Register(calls); err != nil {
		return fmt.Errorf("instruments of gRPC: %w", err)
	}
	if err := instruments.WatchModels(liveModels{models}); err != nil {
		return fmt.Errorf("instruments of models: %w", err)
	}
	err := metrics.Watch(instruments, func() metrics.Totals {
		t := models.Totals()
		return metrics.Totals{
			Models: t.Models, Loaded: t.Loaded, ResidentBytes: t.ResidentBytes, Wakes: t.Wakes, WakeSeconds: t.WakeSeconds,
			Hibernations: t.Hibernations, BadSnapshots: t.BadSnapshots, PendingLabels: t.Pending,
			Reports: t.Reports, ReportSeconds: t.ReportSeconds, Reloads: t.Reloads, Panics: t.Panics,
		}
	})
	if err != nil {
		return fmt.Errorf("instruments of the engine: %w", err)
	}
	err = metrics.Watch(instruments, func() metrics.StoreStats {
		m := disk.Metrics()
		return metrics.StoreStats{
			DiskBytes: m.DiskBytes, LogBytes: m.LogBytes, MemTableBytes: m.MemTableBytes,
			Fsyncs: m.Fsyncs, FsyncSeconds: m.FsyncSeconds,
			RememberedIDs: m.RememberedIDs, Compactions: m.Compactions, Failed: disk.Failed() != nil,
		}
	})
	if err != nil {
		return fmt.Errorf("instruments of the store: %w", err)
	}
	return nil
}

func watchCalls(instruments *metrics.Metrics, server *rpc.Server) error {
	err := metrics.Watch(instruments, func() metrics.CallStats {
		return metrics.CallStats{RequestBytes: server.Stats().RequestBytes}
	})
	if err != nil {
		return fmt.Errorf("instruments of calls: %w", err)
	}
	return nil
}

func watchCopies(instruments *metrics.Metrics, copier *offsite.Copier) error {
	err := metrics.Watch(instruments, func() metrics.CopyStats {
		s := copier.Stats()
		return metrics.CopyStats{Copied: s.Copied, Failed: s.Failed, LastSuccess: s.LastSuccess}
	})
	if err != nil {
		return fmt.Errorf("instruments of copies: %w", err)
	}
	return nil
}

// routes are /metrics, /healthz (the process answers), /readyz (the server serves and
// is not draining), and the front's. The guard lets to /metrics alone; the gateway has it
// too.
func routes(registry *prometheus.Registry, instruments *metrics.Metrics, open *front, guard *gateway.Guard) (http.Handler, error) {
	// The default level takes half as long again and saves a sixth of the bytes.
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("compression of scrapes: %w", err)
	}
	mux := http.NewServeMux()
	// The series name all models.
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(registry, guard.Require(auth.Read, compress(scrapes(instruments)))))
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
	mux.Handle("/", open)
	return mux, nil
}

// scrapes answers in the format that the scraper prefers. The text format has
// a way of its own, which is many times faster than that of all others.
func scrapes(instruments *metrics.Metrics) http.Handler {
	general := promhttp.HandlerFor(instruments, promhttp.HandlerOpts{DisableCompression: true})
	places := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, fmt.Sprintf("%d scrapes are in progress, try again later.", maxScrapes), http.StatusServiceUnavailable)
			return
		}
		format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
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
