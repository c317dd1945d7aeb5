package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"hindsight/internal/auth"
	"hindsight/internal/gateway"
	"hindsight/internal/rpc"
	"hindsight/web"
)

const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	// The gateway extends writeTimeout for calls, and for streams with each write.
	writeTimeout   = time.Minute
	maxHeaderBytes = 16 << 10
	// At most maxScrapes scrapes are answered at once.
	maxScrapes = 4
)

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if calls := s.calls.Load(); calls != nil {
		calls.ServeHTTP(w, r)
		return
	}
	gateway.Starting(w)
}

func (s *server) openWeb(level http.Handler) {
	handler := s.routes(level)
	if takesEveryCall(s.config, s.http.Addr()) {
		handler = gateway.LocalHosts(s.config.Origins(), s.rejected, handler)
	}
	s.web = &http.Server{
		Handler: gateway.BoundBodies(handler), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(s.log.Named("http")),
	}
}

func (s *server) serveHTTP() error {
	l := limited(s.http, s.keeper)
	serve := func() error { return s.web.Serve(l) }
	if s.keeper != nil {
		s.web.TLSConfig = s.keeper.Config("h2", "http/1.1")
		serve = func() error { return s.web.ServeTLS(l, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

func (s *server) closeHTTP() { _ = s.web.Close() }

func (s *server) newGateway(server *rpc.Server) (*gateway.Gateway, error) {
	c := s.config
	return gateway.New(gateway.Options{
		Server: server.Local(), Log: s.log.Named("gateway"), Now: time.Now,
		MaxMessageBytes: int(c.MaxMessageBytes), MemoryLimit: c.MemoryLimit,
		Origins: c.Origins(), Console: web.Files(), GRPC: s.grpc.Addr(), Traced: s.spans != nil, Guard: s.guard, Rejected: s.rejected,
	})
}

// routes are /metrics, /healthz (the process answers), /readyz (isReady), /debug/loglevel, /debug/pprof/,
// and ServeHTTP for the rest. The guard protects /metrics and /debug.
func (s *server) routes(level http.Handler) http.Handler {
	mux := http.NewServeMux()
	scrape := s.guard.Require(auth.Read, scrapes(s.registry, s.spans != nil))
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(s.registry, scrape))
	answer := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // An error means that the prober has disconnected.
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.isReady(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		answer(w, http.StatusOK, "ready\n")
	})
	administrator := func(next http.Handler) http.Handler { return s.guard.Require(auth.Admin, next) }
	mux.Handle("/debug/loglevel", administrator(level))
	mux.Handle("GET /debug/pprof/{name}", administrator(http.HandlerFunc(profile)))
	mux.Handle("/", s)
	return mux
}

// scrapes answers scrapes, at most maxScrapes at once. With traced it offers OpenMetrics too, which Prometheus
// prefers, because only OpenMetrics and protobuf have exemplars.
func scrapes(registry *prometheus.Registry, traced bool) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: traced, MaxRequestsInFlight: maxScrapes})
}

// profile answers GET /debug/pprof/{name}?debug=N&seconds=N for go tool pprof and go tool trace. The package
// net/http/pprof does too, and links 380 KB: a reader of profiles, pages, regular expressions.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	w.Header().Set("Content-Type", "application/octet-stream")
	if p := pprof.Lookup(name); p != nil {
		debug, _ := strconv.Atoi(r.FormValue("debug"))
		if debug > 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_ = p.WriteTo(w, debug) // An error means that the caller has disconnected.
		return
	}
	start, stop := pprof.StartCPUProfile, pprof.StopCPUProfile
	switch name {
	case "profile":
	case "trace":
		start, stop = trace.Start, trace.Stop
	default:
		http.NotFound(w, r)
		return
	}
	span := 30 * time.Second
	if seconds, err := strconv.Atoi(r.FormValue("seconds")); err == nil {
		span = time.Duration(seconds) * time.Second
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(span + writeTimeout))
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	select {
	case <-time.After(span):
	case <-r.Context().Done():
	}
}
