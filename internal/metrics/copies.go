package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CopyStats is what the copying of snapshots says of itself at one moment.
type CopyStats struct {
	// Copied and Failed count snapshots.
	Copied, Failed int64
	// LastSuccess is when the newest copy was done, the zero time before one.
	LastSuccess time.Time
}

func newCopyCollector(read func() CopyStats) *collector[CopyStats] {
	metric := func(name, help string, kind prometheus.ValueType, value func(CopyStats) float64) figure[CopyStats] {
		return figure[CopyStats]{prometheus.NewDesc("hindsight_snapshot_"+name, help, nil, nil), kind, value}
	}
	return &collector[CopyStats]{
		read: read,
		figures: []figure[CopyStats]{
			metric("copies_total", "Snapshots copied to the bucket.", prometheus.CounterValue,
				func(s CopyStats) float64 { return float64(s.Copied) }),
			metric("copy_failures_total", "Snapshots that could not be copied to the bucket.", prometheus.CounterValue,
				func(s CopyStats) float64 { return float64(s.Failed) }),
			metric("copy_last_success_timestamp_seconds", "When the newest snapshot was copied to the bucket.", prometheus.GaugeValue,
				func(s CopyStats) float64 {
					if s.LastSuccess.IsZero() {
						return math.NaN() // Not known: not shown.
					}
					return float64(s.LastSuccess.UnixNano()) / 1e9
				}),
		},
	}
}
