package metrics

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	labelResult = "result"
	labelShard  = "shard"
	labelState  = "state"
)

// Cluster is the cluster as a server knows it.
type Cluster struct {
	Elections uint64        `metric:"hindsight_cluster_elections_total" help:"How often this server became the owner."`
	Behind    uint64        `metric:"hindsight_replica_behind" help:"Committed entries of the log that this server has not applied yet."`
	Age       time.Duration `metric:"hindsight_replica_age_seconds" help:"Greatest age of the state of this server; 0 at the owner."`
	Offset    time.Duration `metric:"hindsight_cluster_clock_offset_seconds" help:"Largest difference between the clock of this server and that of another server of the cluster."`
	// Shards are the groups of models that this server has, and whether it owns them.
	Shards map[uint32]bool
	// Members counts the servers by MemberStates.
	Members map[string]int
}

// MemberStates are the states of a server of a cluster. A missing server is a voter that does not answer. A joining
// server has no vote yet.
func MemberStates() []string { return []string{"owner", "voter", "joining", "missing"} }

// Replication counts the entries that this server proposes, and the calls that it forwards.
type Replication struct {
	refused, unknown prometheus.Counter
	commit           stage
	forwarded        *Counts
}

// Replication registers the metrics of a cluster, which a server alone does not have. The results are the values of
// the label result of forwarded calls.
func (m *Metrics) Replication(results []string, read func() Cluster) (*Replication, error) {
	r := &Replication{
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hindsight_cluster_refused_appends_total", Help: "Entries that the log refused, because this server no longer owned the models.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hindsight_cluster_unknown_appends_total", Help: "Entries that may or may not be in the log.",
		}),
		commit: newStage("hindsight_cluster_commit_seconds", "Time until a majority of the servers had an entry of the log on disk, and this server had applied it."),
	}
	collectors := []prometheus.Collector{r.refused, r.unknown, r.commit, shards{read, prometheus.NewDesc(
		"hindsight_shard_owner", "1 at the server that owns the shard, a group of models; 0 at its other servers.",
		[]string{labelShard}, nil)}}
	for _, state := range MemberStates() {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hindsight_cluster_members", Help: "Servers of the cluster by their state, as this server knows it: owner, voter, joining, or missing for a voter that does not answer.",
			ConstLabels: prometheus.Labels{labelState: state},
		}, func() float64 { return float64(read().Members[state]) }))
	}
	for _, c := range collectors {
		if err := m.server.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: cluster: %w", err)
		}
	}
	if err := Watch(m, read); err != nil {
		return nil, err
	}
	var err error
	r.forwarded, err = m.counts("hindsight_forwarded_calls_total", "Calls forwarded to the owner: answered, no_owner if no server took the call, unknown if the owner may have made the change.", labelResult, results)
	return r, err
}

// shards shows the groups of models that a server has.
type shards struct {
	read  func() Cluster
	owner *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s shards) Describe(ch chan<- *prometheus.Desc) { ch <- s.owner }

// Collect implements prometheus.Collector.
func (s shards) Collect(ch chan<- prometheus.Metric) {
	for number, owns := range s.read().Shards {
		ch <- prometheus.MustNewConstMetric(s.owner, gauge, flag(owns), strconv.FormatUint(uint64(number), 10))
	}
}

// Committed counts a committed entry and the time that it took.
func (r *Replication) Committed(took time.Duration) { r.commit.take(took.Seconds(), "") }

// Refused counts an entry that is not in the log.
func (r *Replication) Refused() { r.refused.Inc() }

// Unknown counts an entry that may or may not be in the log.
func (r *Replication) Unknown() { r.unknown.Inc() }

// Forwarded counts a forwarded call.
func (r *Replication) Forwarded(result string) { r.forwarded.Count(result) }
