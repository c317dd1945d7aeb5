package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cluster is the cluster as a server knows it.
type Cluster struct {
	Behind uint64        // Committed entries of the log that this server has not applied.
	Age    time.Duration // Greatest age of the state of this server; 0 at the owner.
	Offset time.Duration // Largest difference between the clock of this server and another server's clock.
	// Members counts the servers by state: owner, voter, joining (without a vote yet) or missing (a voter that does not answer).
	Members map[string]int
}

// WatchCluster registers the metrics of a cluster, which a server alone does not have.
func (m *Metrics) WatchCluster(read func() Cluster) error {
	for _, state := range []string{"owner", "voter", "joining", "missing"} {
		err := m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hindsight_cluster_members", Help: "Servers of the cluster by their state, as this server knows it: owner, voter, joining, or missing for a voter that does not answer.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(read().Members[state]) }))
		if err != nil {
			return err
		}
	}
	return Watch(m, read,
		Row[Cluster]{"hindsight_cluster_clock_offset_seconds", "Largest difference between the clock of this server and that of another server of the cluster.", func(c Cluster) float64 { return c.Offset.Seconds() }},
		Row[Cluster]{"hindsight_state_age_seconds", "Greatest age of the state of this server; 0 at the owner.", func(c Cluster) float64 { return c.Age.Seconds() }},
		Row[Cluster]{"hindsight_state_behind", "Committed entries of the log that this server has not applied yet.", func(c Cluster) float64 { return float64(c.Behind) }})
}
