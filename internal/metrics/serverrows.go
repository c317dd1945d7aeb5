package metrics

import "time"

// Totals is what the models as a whole say of themselves at one moment.
type Totals struct {
	// Models is the number of models, Loaded of those whose state is in memory,
	// where their states take ResidentBytes. Deleted can be brought back.
	Models, Loaded, Deleted int
	ResidentBytes           int64
	// Aliases is the number of aliases, Followers of models that follow another,
	// Watchers of streams that watch a model.
	Aliases, Followers, Watchers int
	// Wakes counts the models that were loaded, WakeSeconds the time that took.
	Wakes       int64
	WakeSeconds float64
	// Hibernations counts the models whose state left memory.
	Hibernations int64
	// PendingLabels counts the predictions of all models that wait for their
	// label.
	PendingLabels int64
	// BadSnapshots counts the snapshots that could not be used, SnapshotFailures
	// those that could not be written.
	BadSnapshots, SnapshotFailures int64
	// Reports counts the reports that were solved, ReportSeconds the time that
	// took.
	Reports       int64
	ReportSeconds float64
	// Reloads counts the models that were loaded again because the outcome of
	// an append was not known.
	Reloads int64
	// Panics counts the panics of learners.
	Panics int64
	Recovery
}

// Recovery is how far models were recovered.
type Recovery struct {
	// StartModels is how many models the start loads in the background, of which
	// StartLoaded are done and StartFailed could not be loaded. StartDone says that
	// it has ended.
	StartModels, StartLoaded, StartFailed int64
	StartDone                             bool
	// Replayed counts the observations that were learned again from logs since the
	// start, Replaying those that models which are being loaded have before them.
	Replayed, Replaying int64
}

func (Totals) rows() []row[Totals] {
	return []row[Totals]{
		{"hindsight_models", "Models that the server holds.", gauge, func(t Totals) float64 { return float64(t.Models) }},
		{"hindsight_models_loaded", "Models whose state is in memory.", gauge, func(t Totals) float64 { return float64(t.Loaded) }},
		{"hindsight_models_deleted", "Deleted models that can be brought back.", gauge, func(t Totals) float64 { return float64(t.Deleted) }},
		{"hindsight_models_memory_bytes", "Memory that the states of all models take.", gauge, func(t Totals) float64 { return float64(t.ResidentBytes) }},
		{"hindsight_aliases", "Aliases.", gauge, func(t Totals) float64 { return float64(t.Aliases) }},
		{"hindsight_followers", "Models that follow another one.", gauge, func(t Totals) float64 { return float64(t.Followers) }},
		{"hindsight_watchers", "Streams that watch a model.", gauge, func(t Totals) float64 { return float64(t.Watchers) }},
		{"hindsight_model_wakes_total", "Models that were loaded, because they were used.", counter, func(t Totals) float64 { return float64(t.Wakes) }},
		{"hindsight_model_wake_seconds_total", "Time spent loading models.", counter, func(t Totals) float64 { return t.WakeSeconds }},
		{"hindsight_model_hibernations_total", "Models whose state left memory, because others needed the room.", counter, func(t Totals) float64 { return float64(t.Hibernations) }},
		{"hindsight_model_reloads_total", "Models that were loaded again because the outcome of an append was not known.", counter, func(t Totals) float64 { return float64(t.Reloads) }},
		{"hindsight_pending_labels_all", "Predictions of all models that wait for their label.", gauge, func(t Totals) float64 { return float64(t.PendingLabels) }},
		{"hindsight_bad_snapshots_total", "Snapshots that could not be used, so that an older one or the log was.", counter, func(t Totals) float64 { return float64(t.BadSnapshots) }},
		{"hindsight_snapshot_failures_total", "Snapshots that could not be written. What they would have had is in the log.", counter, func(t Totals) float64 { return float64(t.SnapshotFailures) }},
		{"hindsight_reports_total", "Reports that were solved.", counter, func(t Totals) float64 { return float64(t.Reports) }},
		{"hindsight_report_seconds_total", "Time spent solving reports.", counter, func(t Totals) float64 { return t.ReportSeconds }},
		{"hindsight_learner_panics_total", "Panics of learners; one that learned has stopped its model, the others ended one call.", counter, func(t Totals) float64 { return float64(t.Panics) }},
		{"hindsight_recovery_models", "Models that the start loads in the background, at most 1000. The others are loaded when they are used.", gauge, func(t Totals) float64 { return float64(t.StartModels) }},
		{"hindsight_recovery_models_loaded", "Models of hindsight_recovery_models that are loaded.", gauge, func(t Totals) float64 { return float64(t.StartLoaded) }},
		{"hindsight_recovery_models_failed", "Models of hindsight_recovery_models that could not be loaded.", gauge, func(t Totals) float64 { return float64(t.StartFailed) }},
		{"hindsight_recovery_done", "1 once the start has loaded its models, or as many as there is room for; else 0.", gauge, func(t Totals) float64 { return flag(t.StartDone) }},
		{"hindsight_replayed_observations_total", "Observations that were learned again from logs, when models were loaded.", counter, func(t Totals) float64 { return float64(t.Replayed) }},
		{"hindsight_replaying_observations", "Observations that the models which are being loaded have still to learn again.", gauge, func(t Totals) float64 { return float64(t.Replaying) }},
	}
}

// StoreStats is what the store says of itself at one moment.
type StoreStats struct {
	// DiskBytes is the space that the store takes on disk.
	DiskBytes uint64
	// LogBytes is the part of it that is write-ahead log.
	LogBytes uint64
	// FreeBytes is what the file system of the data directory has left for the
	// server, of SizeBytes in all. Both are 0 where it does not say.
	FreeBytes, SizeBytes uint64
	// MemTableBytes is the memory that unflushed writes take.
	MemTableBytes uint64
	// RememberedIDs is the number of observation ids that a retry would find.
	RememberedIDs int
	// Flushes counts the flushes of unflushed writes, Compactions the compactions.
	// Compacting are in progress. They have written CompactedBytes, and have about
	// CompactionDebt bytes before them.
	Flushes, Compactions, Compacting int64
	CompactedBytes, CompactionDebt   uint64
	// ReadAmplification is how many tables a read may have to look into.
	ReadAmplification int
	// Stalls counts the writes that waited for flushes and compactions,
	// StallSeconds the time that they waited.
	Stalls       int64
	StallSeconds float64
	// CacheBytes is what the cache of blocks holds. CacheHits are the blocks that
	// were found there, CacheMisses those that were not.
	CacheBytes, CacheHits, CacheMisses int64
	// Failed says that the store takes no more writes.
	Failed bool
}

func (StoreStats) rows() []row[StoreStats] {
	return []row[StoreStats]{
		{"hindsight_store_disk_bytes", "Space that the store takes on disk.", gauge, func(s StoreStats) float64 { return float64(s.DiskBytes) }},
		{"hindsight_store_log_bytes", "Space that the store's write-ahead log takes.", gauge, func(s StoreStats) float64 { return float64(s.LogBytes) }},
		{"hindsight_store_filesystem_available_bytes", "Space that the file system of the data directory has left for the server.", gauge, func(s StoreStats) float64 { return known(s.SizeBytes > 0, float64(s.FreeBytes)) }},
		{"hindsight_store_filesystem_size_bytes", "Size of the file system of the data directory.", gauge, func(s StoreStats) float64 { return known(s.SizeBytes > 0, float64(s.SizeBytes)) }},
		{"hindsight_store_memtable_bytes", "Memory that the store's unflushed writes take.", gauge, func(s StoreStats) float64 { return float64(s.MemTableBytes) }},
		{"hindsight_store_remembered_ids", "Observation ids that are remembered, so that a retry is answered and not learned.", gauge, func(s StoreStats) float64 { return float64(s.RememberedIDs) }},
		{"hindsight_store_flushes_total", "Flushes of the store's unflushed writes.", counter, func(s StoreStats) float64 { return float64(s.Flushes) }},
		{"hindsight_store_compactions_total", "Compactions of the store.", counter, func(s StoreStats) float64 { return float64(s.Compactions) }},
		{"hindsight_store_compactions_running", "Compactions of the store that are in progress.", gauge, func(s StoreStats) float64 { return float64(s.Compacting) }},
		{"hindsight_store_compacted_bytes_total", "Bytes that flushes and compactions wrote.", counter, func(s StoreStats) float64 { return float64(s.CompactedBytes) }},
		{"hindsight_store_compaction_debt_bytes", "Estimate of the bytes that compactions have before them.", gauge, func(s StoreStats) float64 { return float64(s.CompactionDebt) }},
		{"hindsight_store_read_amplification", "Tables that a read may have to look into, of the database with the most.", gauge, func(s StoreStats) float64 { return float64(s.ReadAmplification) }},
		{"hindsight_store_stalls_total", "Writes that waited, because flushes and compactions were behind.", counter, func(s StoreStats) float64 { return float64(s.Stalls) }},
		{"hindsight_store_stall_seconds_total", "Time that writes waited for flushes and compactions.", counter, func(s StoreStats) float64 { return s.StallSeconds }},
		{"hindsight_store_cache_bytes", "Memory that the store's cache of blocks takes.", gauge, func(s StoreStats) float64 { return float64(s.CacheBytes) }},
		{"hindsight_store_cache_hits_total", "Blocks that were found in the store's cache.", counter, func(s StoreStats) float64 { return float64(s.CacheHits) }},
		{"hindsight_store_cache_misses_total", "Blocks that were not found in the store's cache.", counter, func(s StoreStats) float64 { return float64(s.CacheMisses) }},
		{"hindsight_store_failed", "1 when the store takes no more writes and models are read-only, else 0.", gauge, func(s StoreStats) float64 { return flag(s.Failed) }},
	}
}

// CopyStats is what the copying of snapshots says of itself at one moment.
type CopyStats struct {
	// Copied and Failed count snapshots, CopiedBytes is the size of Copied.
	Copied, Failed, CopiedBytes int64
	// Waiting snapshots of WaitingBytes are to be copied.
	Waiting, WaitingBytes int
	// LastSuccess is when the newest copy was done, the zero time before one.
	LastSuccess time.Time
}

func (CopyStats) rows() []row[CopyStats] {
	return []row[CopyStats]{
		{"hindsight_snapshot_copies_total", "Snapshots copied to the bucket.", counter, func(s CopyStats) float64 { return float64(s.Copied) }},
		{"hindsight_snapshot_copied_bytes_total", "Bytes of the snapshots copied to the bucket.", counter, func(s CopyStats) float64 { return float64(s.CopiedBytes) }},
		{"hindsight_snapshot_copy_failures_total", "Snapshots that could not be copied to the bucket.", counter, func(s CopyStats) float64 { return float64(s.Failed) }},
		{"hindsight_snapshot_copies_waiting", "Snapshots that wait to be copied to the bucket.", gauge, func(s CopyStats) float64 { return float64(s.Waiting) }},
		{"hindsight_snapshot_copies_waiting_bytes", "Bytes of the snapshots that wait to be copied to the bucket.", gauge, func(s CopyStats) float64 { return float64(s.WaitingBytes) }},
		{"hindsight_snapshot_copy_last_success_timestamp_seconds", "When the newest snapshot was copied to the bucket; absent before the first.", gauge, func(s CopyStats) float64 { return timestamp(s.LastSuccess) }},
	}
}

// CallStats is what the calls as a whole take at one moment.
type CallStats struct {
	// RequestBytes is the size of the requests in progress.
	RequestBytes int64
}

func (CallStats) rows() []row[CallStats] {
	return []row[CallStats]{
		{"hindsight_requests_in_progress_bytes", "Size of the requests and the models in transfer in progress.", gauge, func(s CallStats) float64 { return float64(s.RequestBytes) }},
	}
}

// ServerStats is what the server says of itself at one moment.
type ServerStats struct {
	// Ready says that it serves and does not drain.
	Ready bool
}

func (ServerStats) rows() []row[ServerStats] {
	return []row[ServerStats]{
		{"hindsight_ready", "1 while the server serves, 0 while it starts or drains.", gauge, func(s ServerStats) float64 { return flag(s.Ready) }},
	}
}

// Limits are what the settings bound. 0 is no limit.
type Limits struct {
	// PendingLabels is of all models together, Queue of the observations that wait
	// for one model.
	PendingLabels, Queue, Models int64
	// ModelBytes is of the states in memory, RequestBytes of the requests in
	// progress, as much again of models in transfer.
	ModelBytes, RequestBytes int64
}

func (Limits) rows() []row[Limits] {
	limit := func(n int64) float64 { return known(n > 0, float64(n)) }
	return []row[Limits]{
		{"hindsight_pending_labels_all_limit", "Most predictions of all models that may wait for their label: --max-pending-total.", gauge, func(l Limits) float64 { return limit(l.PendingLabels) }},
		{"hindsight_queued_observations_limit", "Most observations that may wait for one model: --queue.", gauge, func(l Limits) float64 { return limit(l.Queue) }},
		{"hindsight_models_limit", "Most models: --max-models.", gauge, func(l Limits) float64 { return limit(l.Models) }},
		{"hindsight_models_memory_limit_bytes", "Most memory that the states of all models may take before idle ones leave it: half of --memory-limit. Absent without a limit.", gauge, func(l Limits) float64 { return limit(l.ModelBytes) }},
		{"hindsight_requests_in_progress_limit_bytes", "Most bytes of requests in progress before OVERLOADED, and as many again of models in transfer.", gauge, func(l Limits) float64 { return limit(l.RequestBytes) }},
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
		{"hindsight_tls_reload_failures_total", "Changes of the certificate files that could not be used; those before stay.", counter, func(s TLSStats) float64 { return float64(s.ReloadFailures) }},
		{"hindsight_tls_handshake_failures_total", "Connections that ended before their TLS handshake was done.", counter, func(s TLSStats) float64 { return float64(s.HandshakeFailures) }},
		{"hindsight_tls_connections_closed_total", "Connections that were closed because their client's certificate had expired or lost its authority.", counter, func(s TLSStats) float64 { return float64(s.Closed) }},
		{"hindsight_tls_certificate_expiry_timestamp_seconds", "When the server's TLS certificate expires; absent without TLS.", gauge, func(s TLSStats) float64 { return timestamp(s.Expires) }},
	}
}

// AuthStats is what authentication says of itself at one moment.
type AuthStats struct {
	// Accepted counts the calls of known principals that their role allows,
	// Unauthenticated those without a good token or certificate, Forbidden those
	// that the role or the scope does not allow, Limited those beyond the rate or the
	// concurrency of their principal.
	Accepted, Unauthenticated, Forbidden, Limited uint64
	// Logins counts the sessions of the console that were begun, LoginFailures those
	// that were refused.
	Logins, LoginFailures uint64
	// Reloads counts the token files and key sets that were read again and taken,
	// ReloadFailures those that could not be.
	Reloads, ReloadFailures uint64
}

func (AuthStats) rows() []row[AuthStats] {
	return []row[AuthStats]{
		{"hindsight_auth_accepted_total", "Calls of known principals that their role allows.", counter, func(s AuthStats) float64 { return float64(s.Accepted) }},
		{"hindsight_auth_unauthenticated_total", "Calls without a good token or certificate.", counter, func(s AuthStats) float64 { return float64(s.Unauthenticated) }},
		{"hindsight_auth_forbidden_total", "Calls that the role or the scope of their principal does not allow.", counter, func(s AuthStats) float64 { return float64(s.Forbidden) }},
		{"hindsight_auth_limited_total", "Calls beyond the rate or the concurrency of their principal.", counter, func(s AuthStats) float64 { return float64(s.Limited) }},
		{"hindsight_auth_logins_total", "Sessions of the console that were begun.", counter, func(s AuthStats) float64 { return float64(s.Logins) }},
		{"hindsight_auth_login_failures_total", "Sessions of the console that were refused.", counter, func(s AuthStats) float64 { return float64(s.LoginFailures) }},
		{"hindsight_auth_reloads_total", "Token files and key sets that were read again and taken.", counter, func(s AuthStats) float64 { return float64(s.Reloads) }},
		{"hindsight_auth_reload_failures_total", "Token files and key sets that could not be read again; the ones before stay.", counter, func(s AuthStats) float64 { return float64(s.ReloadFailures) }},
	}
}

// TraceStats is what tracing says of itself at one moment.
type TraceStats struct {
	// Ended counts the sampled spans that ended, Exported those that the collector
	// took, Failed those that it did not take. What is in neither waits, or was
	// dropped because too many waited.
	Ended, Exported, Failed uint64
}

func (TraceStats) rows() []row[TraceStats] {
	return []row[TraceStats]{
		{"hindsight_trace_spans_total", "Sampled spans that ended.", counter, func(s TraceStats) float64 { return float64(s.Ended) }},
		{"hindsight_trace_spans_exported_total", "Sampled spans that the collector took.", counter, func(s TraceStats) float64 { return float64(s.Exported) }},
		{"hindsight_trace_spans_failed_total", "Sampled spans that the collector did not take. Spans that are in neither wait, or were dropped because too many waited.", counter, func(s TraceStats) float64 { return float64(s.Failed) }},
	}
}
