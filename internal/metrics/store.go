package metrics

import "github.com/prometheus/client_golang/prometheus"

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

func newStoreCollector(read func() StoreStats) *collector[StoreStats] {
	metric := func(name, help string, kind prometheus.ValueType, value func(StoreStats) float64) figure[StoreStats] {
		return figure[StoreStats]{prometheus.NewDesc("hindsight_store_"+name, help, nil, nil), kind, value}
	}
	return &collector[StoreStats]{
		read: read,
		figures: []figure[StoreStats]{
			metric("disk_bytes", "Space that the store takes on disk.", prometheus.GaugeValue,
				func(s StoreStats) float64 { return float64(s.DiskBytes) }),
			metric("log_bytes", "Space that the store's write-ahead log takes.", prometheus.GaugeValue,
				func(s StoreStats) float64 { return float64(s.LogBytes) }),
			metric("memtable_bytes", "Memory that the store's unflushed writes take.", prometheus.GaugeValue,
				func(s StoreStats) float64 { return float64(s.MemTableBytes) }),
			metric("fsyncs_total", "Fsyncs of the write-ahead log; one serves all observations that waited for it.", prometheus.CounterValue,
				func(s StoreStats) float64 { return float64(s.Fsyncs) }),
			metric("fsync_seconds_total", "Time spent in fsyncs of the write-ahead log.", prometheus.CounterValue,
				func(s StoreStats) float64 { return s.FsyncSeconds }),
			metric("remembered_ids", "Observation ids that are remembered, so that a retry is answered and not learned.", prometheus.GaugeValue,
				func(s StoreStats) float64 { return float64(s.RememberedIDs) }),
			metric("compactions_total", "Compactions of the store.", prometheus.CounterValue,
				func(s StoreStats) float64 { return float64(s.Compactions) }),
			metric("failed", "1 when the store takes no more writes and models are read-only, else 0.", prometheus.GaugeValue,
				func(s StoreStats) float64 { return flag(s.Failed) }),
		},
	}
}
