package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/certificates"
	"hindsight/internal/engine"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

const lastSpans = 5 * time.Second

// registerCalls registers the metrics of calls, and of a cluster.
func (s *server) registerCalls() (err error) {
	s.observed = metrics.NewCalls()
	s.rejected, err = s.instruments.Rejections(rpc.Reasons())
	err = errors.Join(err, s.registry.Register(s.observed))
	if s.config.ClusterAddress != "" {
		err = errors.Join(err, s.instruments.WatchCluster(s.view.read))
	}
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	return nil
}

func (s *server) callMetrics(kind, service, method string, codes []string) rpc.CallMetrics {
	return s.observed.Method(kind, service, method, codes)
}

// registerModels registers the metrics of models, stores and backups.
func (s *server) registerModels(models *groups, server *rpc.Server) error {
	limit := float64(s.config.MaxPending)
	err := errors.Join(s.instruments.WatchModels(models.Each), watchCalls(s.instruments, server.RequestBytes),
		watchTotals(s.instruments, limit, models.totals), watchDisks(s.instruments, models.disks))
	if s.config.BackupTo != "" {
		err = errors.Join(err, watchBackups(s.instruments, models.backups))
	}
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	return nil
}

func row[T any](name, help string, value func(T) float64) metrics.Row[T] {
	return metrics.Row[T]{Name: name, Help: help, Value: value}
}

func sum[T any, N int | int64 | uint64 | float64](of func(T) N) func([]T) float64 {
	return func(groups []T) (all float64) {
		for _, g := range groups {
			all += float64(of(g))
		}
		return all
	}
}

func largest[T any](of func(T) float64) func([]T) float64 {
	return func(groups []T) float64 {
		all := math.NaN()
		for _, g := range groups {
			if v := of(g); !math.IsNaN(v) && !(v <= all) {
				all = v
			}
		}
		return all
	}
}

func watchCalls(m *metrics.Metrics, read func() int64) error {
	return metrics.Watch(m, read,
		row("hindsight_requests_in_progress_bytes", "Size of the requests and model transfers in progress.", func(bytes int64) float64 { return float64(bytes) }))
}

// watchTotals shows the figures over all models. A limit of 0 is no limit.
func watchTotals(m *metrics.Metrics, pendingLimit float64, read func() []engine.Totals) error {
	return metrics.Watch(m, read,
		row("hindsight_learner_panics_total", "Panics of learners; while learning they stop the model, else one call.", sum(func(t engine.Totals) int64 { return t.Panics.Load() })),
		row("hindsight_model_wakes_total", "Models loaded on use.", sum(func(t engine.Totals) int64 { return t.Wakes.Load() })),
		row("hindsight_models", "Models that the server holds.", sum(func(t engine.Totals) int { return t.Models })),
		row("hindsight_models_memory_bytes", "Memory of the states of all models.", sum(func(t engine.Totals) int64 { return t.ResidentBytes })),
		row("hindsight_pending_labels_all", "Pending predictions of all models.", sum(func(t engine.Totals) int64 { return t.Pending })),
		row("hindsight_pending_labels_all_limit", "Maximum of pending predictions of all models: --max-pending. Absent without a limit.", func([]engine.Totals) float64 {
			if pendingLimit > 0 {
				return pendingLimit
			}
			return math.NaN()
		}),
		row("hindsight_recovery_models_failed", "Models that the start could not load.", sum(func(t engine.Totals) int64 { return t.StartFailed.Load() })),
		row("hindsight_state_digest_mismatches_total", "Copies of models that differ from another server's: the state, an id, a pending prediction or the metadata.", sum(func(t engine.Totals) int64 { return t.DigestMismatches.Load() })),
		row("hindsight_snapshot_failures_total", "Snapshots that could not be written or read back.", sum(func(t engine.Totals) int64 { return t.SnapshotFailures.Load() })))
}

func watchDisks(m *metrics.Metrics, read func() []store.Metrics) error {
	return metrics.Watch(m, read,
		row("hindsight_store_disk_bytes", "Space of the store on disk.", sum(func(d store.Metrics) uint64 { return d.DiskBytes })),
		row("hindsight_store_failed", "1 when the store takes no more writes, else 0.", largest(func(d store.Metrics) float64 { return metrics.Flag(d.Failed) })),
		row("hindsight_store_filesystem_available_bytes", "Free space of the file system of the data directory.", largest(func(d store.Metrics) float64 { return d.FreeBytes })),
		row("hindsight_store_filesystem_size_bytes", "Size of the file system of the data directory.", largest(func(d store.Metrics) float64 { return d.SizeBytes })),
		row("hindsight_store_remembered_ids", "Remembered observation ids.", sum(func(d store.Metrics) int { return d.RememberedIDs })),
		row("hindsight_store_stall_seconds_total", "Time that writes waited for flushes and compactions.", sum(func(d store.Metrics) float64 { return d.StallSeconds })))
}

func watchBackups(m *metrics.Metrics, read func() []backups) error {
	return metrics.Watch(m, read,
		row("hindsight_backup_failures_total", "Scheduled backups that failed.", sum(func(b backups) int64 { return b.Failed })),
		row("hindsight_backup_last_success_timestamp_seconds", "When the newest scheduled backup began, of several groups that this server owns the oldest; absent before the first.", func(groups []backups) float64 {
			return -largest(func(b backups) float64 { return -metrics.Timestamp(b.LastSuccess) })(groups)
		}))
}

func watchTLS(m *metrics.Metrics, read func() certificates.Stats) error {
	return metrics.Watch(m, read,
		row("hindsight_tls_certificate_expiry_timestamp_seconds", "When the server's TLS certificate expires; absent without TLS.", func(s certificates.Stats) float64 { return metrics.Timestamp(s.Expires) }),
		row("hindsight_tls_reload_failures_total", "Unusable changes of the certificate files; the previous ones stay.", func(s certificates.Stats) float64 { return float64(s.ReloadFailures) }))
}

func watchAccess(m *metrics.Metrics, read func() access.Stats) error {
	return metrics.Watch(m, read,
		row("hindsight_audit_failures_total", "Lines of the audit log that could not be written.", func(s access.Stats) float64 { return float64(s.AuditFailures) }),
		row("hindsight_auth_reload_failures_total", "Token files and key sets that could not be reread; the previous ones stay.", func(s access.Stats) float64 { return float64(s.ReloadFailures) }),
		row("hindsight_auth_unauthenticated_total", "Calls without a good token or certificate.", func(s access.Stats) float64 { return float64(s.Unknown) }))
}
