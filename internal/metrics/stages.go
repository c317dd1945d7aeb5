package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Stages takes what the stages of an observation's way cost, over all models. Its
// methods may be called concurrently. A trace is the id of the sampled trace that
// the call belongs to, empty without one: it becomes an exemplar.
type Stages struct {
	queue, commit, learn, snapshot, fsync stage
	batch                                 prometheus.Histogram
}

// stage is a histogram of durations.
type stage struct{ prometheus.Histogram }

// newStage makes a histogram with the classic buckets of Timings and native ones.
func newStage(name, help string) stage {
	limits := timingBuckets()
	return stage{prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: limits[:],
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramZeroThreshold: nativeZero, NativeHistogramMaxBucketNumber: nativeBuckets,
	})}
}

// take counts a duration as histogram.take does.
func (s stage) take(seconds float64, trace string) {
	if !finite(seconds) {
		return
	}
	seconds = max(seconds, 0)
	if e, ok := s.Histogram.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(seconds, prometheus.Labels{labelTrace: trace})
		return
	}
	s.Observe(seconds)
}

// newStages makes the histograms of the server.
func newStages(registry *prometheus.Registry) (*Stages, error) {
	s := &Stages{
		queue:    newStage("hindsight_queue_seconds", "Wait of the observations of a call for their model's turn."),
		commit:   newStage("hindsight_commit_seconds", "Time to append the observations of a commit to the log, with --durability=sync its fsync included."),
		learn:    newStage("hindsight_learn_seconds", "Time to learn the observations of a commit."),
		snapshot: newStage("hindsight_snapshot_seconds", "Time to write a snapshot to the disk, after its state was copied."),
		fsync:    newStage("hindsight_store_fsync_seconds", "Fsyncs of the write-ahead log."),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hindsight_commit_observations", Help: "Observations of a commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11), NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets,
		}),
	}
	for _, c := range []prometheus.Collector{s.queue, s.commit, s.learn, s.snapshot, s.fsync, s.batch} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return s, nil
}

// Queue takes how long a call waited for its model's turn.
func (s *Stages) Queue(seconds float64, trace string) { s.queue.take(seconds, trace) }

// Commit takes how long a commit of so many observations took to be appended.
func (s *Stages) Commit(observations int, seconds float64, trace string) {
	s.batch.Observe(float64(observations))
	s.commit.take(seconds, trace)
}

// Learn takes how long a model took to learn a commit.
func (s *Stages) Learn(seconds float64, trace string) { s.learn.take(seconds, trace) }

// Snapshot takes how long a snapshot took to be written.
func (s *Stages) Snapshot(seconds float64) { s.snapshot.take(seconds, "") }

// Fsync takes how long an fsync of the write-ahead log took.
func (s *Stages) Fsync(seconds float64) { s.fsync.take(seconds, "") }

// Counts counts events by a label of few values, which are known from the start:
// a series that begins at 0 shows its first event to rate().
type Counts struct {
	by    map[string]prometheus.Counter
	other prometheus.Counter
}

// Count counts an event. A value that is not known counts as the last one.
func (c *Counts) Count(value string) {
	if one, ok := c.by[value]; ok {
		one.Inc()
		return
	}
	c.other.Inc()
}

// counts registers a counter with one series for each value.
func (m *Metrics) counts(name, help, label string, values []string) (*Counts, error) {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	if err := m.server.Register(vector); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	c := &Counts{by: make(map[string]prometheus.Counter, len(values))}
	for _, v := range values {
		c.other = vector.WithLabelValues(v)
		c.by[v] = c.other
	}
	return c, nil
}

// Refusals counts the calls that were refused, by the reason in their error. The last
// of the reasons stands for all that are not among them.
func (m *Metrics) Refusals(reasons []string) (*Counts, error) {
	return m.counts("hindsight_refusals_total", "Refused and failed calls, other HTTP requests included, by reason, else by code.", labelReason, reasons)
}

// LogLines counts the log lines that were written, and those that were left out
// because too many were alike, by their level.
func (m *Metrics) LogLines(levels []string) (written, dropped *Counts, err error) {
	written, err = m.counts("hindsight_log_lines_total", "Log lines written.", labelLevel, levels)
	if err != nil {
		return nil, nil, err
	}
	dropped, err = m.counts("hindsight_log_lines_dropped_total", "Log lines left out because too many of a second were alike.", labelLevel, levels)
	return written, dropped, err
}
