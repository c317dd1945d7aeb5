package metrics

import "github.com/prometheus/client_golang/prometheus"

// CallStats is what the calls as a whole take, and what was done about it.
type CallStats struct {
	// RequestBytes are the requests in progress, UnreadBytes at most the
	// answers that connections have to send yet.
	RequestBytes, UnreadBytes int64
	// Ended counts calls that were ended because memory ran out, Closed connections
	// that did not read their answers.
	Ended, Closed int64
}

func newCallCollector(read func() CallStats) *collector[CallStats] {
	metric := func(name, help string, kind prometheus.ValueType, value func(CallStats) int64) figure[CallStats] {
		return figure[CallStats]{
			prometheus.NewDesc("hindsight_"+name, help, nil, nil), kind,
			func(s CallStats) float64 { return float64(value(s)) },
		}
	}
	return &collector[CallStats]{
		read: read,
		figures: []figure[CallStats]{
			metric("requests_in_progress_bytes", "Requests in progress.", prometheus.GaugeValue,
				func(s CallStats) int64 { return s.RequestBytes }),
			metric("answers_unread_bytes", "Answers that clients have not taken yet, at most.", prometheus.GaugeValue,
				func(s CallStats) int64 { return s.UnreadBytes }),
			metric("calls_ended_total", "Calls that were ended because memory ran out.", prometheus.CounterValue,
				func(s CallStats) int64 { return s.Ended }),
			metric("connections_closed_total", "Connections that were closed because they did not read their answers.", prometheus.CounterValue,
				func(s CallStats) int64 { return s.Closed }),
		},
	}
}
