package metrics

import "github.com/prometheus/client_golang/prometheus"

// MemoryStats is what the models as a whole say of themselves at one moment.
type MemoryStats struct {
	// Models is the number of models, Loaded of those whose state is in memory, ResidentBytes
	// what their states take there.
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
}

func newMemoryCollector(read func() MemoryStats) *collector[MemoryStats] {
	metric := func(name, help string, kind prometheus.ValueType, value func(MemoryStats) float64) figure[MemoryStats] {
		return figure[MemoryStats]{prometheus.NewDesc("hindsight_"+name, help, nil, nil), kind, value}
	}
	return &collector[MemoryStats]{
		read: read,
		figures: []figure[MemoryStats]{
			metric("models", "Models that the server holds.", prometheus.GaugeValue,
				func(s MemoryStats) float64 { return float64(s.Models) }),
			metric("models_loaded", "Models whose state is in memory.", prometheus.GaugeValue,
				func(s MemoryStats) float64 { return float64(s.Loaded) }),
			metric("models_memory_bytes", "Memory that the states of all models take.", prometheus.GaugeValue,
				func(s MemoryStats) float64 { return float64(s.ResidentBytes) }),
			metric("model_wakes_total", "Models that were loaded, because they were used.", prometheus.CounterValue,
				func(s MemoryStats) float64 { return float64(s.Wakes) }),
			metric("model_wake_seconds_total", "Time spent loading models.", prometheus.CounterValue,
				func(s MemoryStats) float64 { return s.WakeSeconds }),
			metric("model_hibernations_total", "Models whose state left memory, because others needed the room.", prometheus.CounterValue,
				func(s MemoryStats) float64 { return float64(s.Hibernations) }),
			metric("pending_labels_all", "Predictions of all models that wait for their label.", prometheus.GaugeValue,
				func(s MemoryStats) float64 { return float64(s.PendingLabels) }),
			metric("bad_snapshots_total", "Snapshots that could not be used, so that an older one or the log was.", prometheus.CounterValue,
				func(s MemoryStats) float64 { return float64(s.BadSnapshots) }),
		},
	}
}
