package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
	untyped = prometheus.UntypedValue
)

// row is one metric of what a source yields. A number that is not finite has
// no series.
type row[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(T) float64
}

// stats is a struct of numbers that has a table.
type stats[T any] interface{ rows() []row[T] }

// Totals is what the models as a whole say of themselves at one moment.
type Totals struct {
	// Models is the number of models, Loaded of those whose state is in memory,
	// where their states take ResidentBytes.
	Models, Loaded int
	ResidentBytes  int64
	// Wakes counts the models that were loaded, WakeSeconds the time that took.
	Wakes       int64
	WakeSeconds float64
	// Hibernations counts the models whose state left memory.
	Hibernations int64
	// PendingLabels counts the predictions of all models that wait for their
	// label.
	PendingLabels int64
	// BadSnapshots counts the snapshots that could not be used.
	BadSnapshots int64
	// Reports counts the reports that were solved, ReportSeconds the time that
	// took.
	Reports       int64
	ReportSeconds float64
	// Reloads counts the models that were loaded again because the outcome of
	// an append was not known.
	Reloads int64
	// Panics counts the panics of learners.
	Panics int64
}

func (Totals) rows() []row[Totals] {
	return []row[Totals]{
		{"hindsight_models", "Models that the server holds.", gauge, func(t Totals) float64 { return float64(t.Models) }},
		{"hindsight_models_loaded", "Models whose state is in memory.", gauge, func(t Totals) float64 { return float64(t.Loaded) }},
		{"hindsight_models_memory_bytes", "Memory that the states of all models take.", gauge, func(t Totals) float64 { return float64(t.ResidentBytes) }},
		{"hindsight_model_wakes_total", "Models that were loaded, because they were used.", counter, func(t Totals) float64 { return float64(t.Wakes) }},
		{"hindsight_model_wake_seconds_total", "Time spent loading models.", counter, func(t Totals) float64 { return t.WakeSeconds }},
		{"hindsight_model_hibernations_total", "Models whose state left memory, because others needed the room.", counter, func(t Totals) float64 { return float64(t.Hibernations) }},
		{"hindsight_model_reloads_total", "Models that were loaded again because the outcome of an append was not known.", counter, func(t Totals) float64 { return float64(t.Reloads) }},
		{"hindsight_pending_labels_all", "Predictions of all models that wait for their label.", gauge, func(t Totals) float64 { return float64(t.PendingLabels) }},
		{"hindsight_bad_snapshots_total", "Snapshots that could not be used, so that an older one or the log was.", counter, func(t Totals) float64 { return float64(t.BadSnapshots) }},
		{"hindsight_reports_total", "Reports that were solved.", counter, func(t Totals) float64 { return float64(t.Reports) }},
		{"hindsight_report_seconds_total", "Time spent solving reports.", counter, func(t Totals) float64 { return t.ReportSeconds }},
		{"hindsight_learner_panics_total", "Panics of learners; one that learned has stopped its model, the others ended one call.", counter, func(t Totals) float64 { return float64(t.Panics) }},
	}
}

// StoreStats is what the store says of itself at one moment.
type StoreStats struct {
	// DiskBytes is the space that the store takes on disk.
	DiskBytes uint64
	// LogBytes is the part of it that is write-ahead log.
	LogBytes uint64
	// MemTableBytes is the memory that unflushed writes take.
	MemTableBytes uint64
	// Fsyncs counts the fsyncs of the log.
	Fsyncs uint64
	// FsyncSeconds is the time spent in them.
	FsyncSeconds float64
	// RememberedIDs is the number of observation ids that a retry would find.
	RememberedIDs int
	// Compactions counts the compactions.
	Compactions int64
	// Failed says that the store takes no more writes.
	Failed bool
}

func (StoreStats) rows() []row[StoreStats] {
	return []row[StoreStats]{
		{"hindsight_store_disk_bytes", "Space that the store takes on disk.", gauge, func(s StoreStats) float64 { return float64(s.DiskBytes) }},
		{"hindsight_store_log_bytes", "Space that the store's write-ahead log takes.", gauge, func(s StoreStats) float64 { return float64(s.LogBytes) }},
		{"hindsight_store_memtable_bytes", "Memory that the store's unflushed writes take.", gauge, func(s StoreStats) float64 { return float64(s.MemTableBytes) }},
		{"hindsight_store_fsyncs_total", "Fsyncs of the write-ahead log; one serves all observations that waited for it.", counter, func(s StoreStats) float64 { return float64(s.Fsyncs) }},
		{"hindsight_store_fsync_seconds_total", "Time spent in fsyncs of the write-ahead log.", counter, func(s StoreStats) float64 { return s.FsyncSeconds }},
		{"hindsight_store_remembered_ids", "Observation ids that are remembered, so that a retry is answered and not learned.", gauge, func(s StoreStats) float64 { return float64(s.RememberedIDs) }},
		{"hindsight_store_compactions_total", "Compactions of the store.", counter, func(s StoreStats) float64 { return float64(s.Compactions) }},
		{"hindsight_store_failed", "1 when the store takes no more writes and models are read-only, else 0.", gauge, func(s StoreStats) float64 { return flag(s.Failed) }},
	}
}

// CopyStats is what the copying of snapshots says of itself at one moment.
type CopyStats struct {
	// Copied and Failed count snapshots.
	Copied, Failed int64
	// LastSuccess is when the newest copy was done, the zero time before one.
	LastSuccess time.Time
}

func (CopyStats) rows() []row[CopyStats] {
	return []row[CopyStats]{
		{"hindsight_snapshot_copies_total", "Snapshots copied to the bucket.", counter, func(s CopyStats) float64 { return float64(s.Copied) }},
		{"hindsight_snapshot_copy_failures_total", "Snapshots that could not be copied to the bucket.", counter, func(s CopyStats) float64 { return float64(s.Failed) }},
		{"hindsight_snapshot_copy_last_success_timestamp_seconds", "When the newest snapshot was copied to the bucket.", gauge, func(s CopyStats) float64 {
			if s.LastSuccess.IsZero() {
				return math.NaN()
			}
			return float64(s.LastSuccess.UnixNano()) / 1e9
		}},
	}
}

// TLSStats is what the certificates and connections of the server say at one moment.
type TLSStats struct {
	// Reloads and ReloadFailures count changes of the files, HandshakeFailures and Closed
	// count connections.
	Reloads, ReloadFailures, HandshakeFailures, Closed uint64
	// Expires is when the server's certificate expires.
	Expires time.Time
}

func (TLSStats) rows() []row[TLSStats] {
	return []row[TLSStats]{
		{"hindsight_tls_reloads_total", "Changes of the certificate files that were taken.", counter, func(s TLSStats) float64 { return float64(s.Reloads) }},
		{"hindsight_tls_reload_failures_total", "Changes of the certificate files that could not be used.", counter, func(s TLSStats) float64 { return float64(s.ReloadFailures) }},
		{"hindsight_tls_handshake_failures_total", "Connections that ended before their TLS handshake was done.", counter, func(s TLSStats) float64 { return float64(s.HandshakeFailures) }},
		{"hindsight_tls_connections_closed_total", "Connections that were closed because their client's certificate had expired or lost its authority.", counter, func(s TLSStats) float64 { return float64(s.Closed) }},
		{"hindsight_tls_certificate_expiry_timestamp_seconds", "When the server's certificate expires.", gauge, func(s TLSStats) float64 { return float64(s.Expires.Unix()) }},
	}
}

// CallStats is what the calls as a whole take at one moment.
type CallStats struct {
	// RequestBytes is the size of the requests in progress.
	RequestBytes int64
}

func (CallStats) rows() []row[CallStats] {
	return []row[CallStats]{
		{"hindsight_requests_in_progress_bytes", "Size of the requests in progress.", gauge, func(s CallStats) float64 { return float64(s.RequestBytes) }},
	}
}

// table shows what read yields, row by row.
type table[T any] struct {
	read  func() T
	rows  []row[T]
	descs []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (t *table[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *table[T]) Collect(ch chan<- prometheus.Metric) {
	read := t.read()
	for i, r := range t.rows {
		if v := r.value(read); finite(v) {
			ch <- prometheus.MustNewConstMetric(t.descs[i], r.kind, v)
		}
	}
}
