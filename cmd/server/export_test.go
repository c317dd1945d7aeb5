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

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/cluster"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
)

// ServeBy runs the server of a command line, with a dialer for the other servers of its cluster.
func ServeBy(ctx context.Context, args []string, dial cluster.Dialer) int {
	ignoreSignals()
	return plain(ctx, call{args, os.LookupEnv, os.Stdout, os.Stderr}, func(ctx context.Context, c config.Config, stderr io.Writer) error {
		return serveBy(ctx, c, stderr, dial)
	})
}

// NewLogger is the logger of a server, and what answers its level.
func NewLogger(c config.Config, stderr io.Writer, instruments *metrics.Metrics) (*zap.Logger, http.Handler, error) {
	log, at, err := newLogger(c, stderr, instruments)
	return log, levels(at, log), err
}

// WarnExposed is warnExposed.
func WarnExposed(log *zap.Logger, c config.Config, addresses ...net.Addr) {
	warnExposed(log, c, addresses...)
}

// TakesEveryCall is takesEveryCall.
func TakesEveryCall(c config.Config, address net.Addr) bool { return takesEveryCall(c, address) }

// WatchOwn shows the metrics that this package declares.
func WatchOwn(m *metrics.Metrics) error {
	_, replication := m.Replication(rpc.ForwardResults(), func() metrics.Cluster { return metrics.Cluster{Shards: map[uint32]bool{0: true}} })
	return errors.Join(
		metrics.Watch(m, func() limits { return limits{PendingLabels: 1, Queue: 1, Models: 1, ModelBytes: 1} }),
		metrics.Watch(m, func() serving { return serving{} }), replication,
		metrics.Watch(m, func() backups { return backups{LastSuccess: time.Unix(1, 0)} }))
}
