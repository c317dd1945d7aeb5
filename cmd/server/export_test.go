package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/certificates"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/metrics"
	"hindsight/internal/store"
)

// checkOften finds a difference between servers within a test.
const checkOften = 200 * time.Millisecond

// ServeBy runs the server of a command line, with a dialer for the other servers of its cluster.
func ServeBy(ctx context.Context, args []string, dial cluster.Dialer) int {
	ignoreSignals()
	return plain(ctx, call{args, os.LookupEnv, os.Stdout, os.Stderr}, func(ctx context.Context, c config.Config, stderr io.Writer) error {
		return serveBy(ctx, c, stderr, dial, checkOften)
	})
}

// NewLogger is the logger of a server, and what answers its level.
func NewLogger(c config.Config, stderr io.Writer) (*zap.Logger, http.Handler) {
	log, at := newLogger(c, stderr)
	return log, levels(at, log)
}

// WarnExposed is warnExposed.
func WarnExposed(log *zap.Logger, c config.Config, addresses ...net.Addr) {
	warnExposed(log, c, addresses...)
}

// TakesEveryCall is takesEveryCall.
func TakesEveryCall(c config.Config, address net.Addr) bool { return takesEveryCall(c, address) }

// WatchAll registers the metrics of the server that have a source, with every number known.
func WatchAll(m *metrics.Metrics, models func(func(*figures.Live))) error {
	shown := time.Unix(1, 0)
	return errors.Join(m.WatchModels(models), m.WatchCluster(func() metrics.Cluster { return metrics.Cluster{} }),
		watchCalls(m, func() int64 { return 0 }),
		watchTotals(m, 1, func() []engine.Totals {
			return []engine.Totals{{Counters: new(hosted.Counters), ReportCounters: new(figures.ReportCounters), StartCounters: new(engine.StartCounters)}}
		}),
		watchDisks(m, func() []store.Metrics { return []store.Metrics{{}} }),
		watchBackups(m, func() []backups { return []backups{{LastSuccess: shown}} }),
		watchTLS(m, func() certificates.Stats { return certificates.Stats{Expires: shown} }),
		watchAccess(m, func() access.Stats { return access.Stats{} }))
}

// TracesEndpoint is the URL of the collector of traces, empty without tracing.
var TracesEndpoint = tracesEndpoint

// Supervise notifies systemd.
var Supervise = supervise
