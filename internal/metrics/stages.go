package metrics

import "github.com/prometheus/client_golang/prometheus"

// Stages takes the durations of the stages of an observation, over all models. Its methods may be called
// concurrently. A trace is the id of the sampled trace that the call belongs to, empty without one: it becomes an
// exemplar.
type Stages struct{ queue, commit, learn, fsync prometheus.Histogram }

func newStages() *Stages {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(durations(name, help))
	}
	return &Stages{
		queue:  histogram("hindsight_queue_seconds", "Wait of the observations of a call for their model's turn."),
		commit: histogram("hindsight_commit_seconds", "Time to append the observations of a commit to the log, with --durability=sync its fsync included."),
		learn:  histogram("hindsight_learn_seconds", "Time to learn the observations of a commit."),
		fsync:  histogram("hindsight_store_fsync_seconds", "Fsyncs of the write-ahead log."),
	}
}

// Queue takes how long a call waited for its model's turn.
func (s *Stages) Queue(seconds float64, trace string) { take(s.queue, seconds, trace) }

// Commit takes how long the append of a commit took.
func (s *Stages) Commit(seconds float64, trace string) { take(s.commit, seconds, trace) }

// Learn takes how long a model took to learn a commit.
func (s *Stages) Learn(seconds float64, trace string) { take(s.learn, seconds, trace) }

// Fsync takes how long an fsync of the write-ahead log took.
func (s *Stages) Fsync(seconds float64) { take(s.fsync, seconds, "") }

// durations are the options of a histogram of durations, with classic and native buckets. The classic buckets are
// 1, 2.5 and 5 of every power of ten from 1 µs to 10 s; they are written out because a product like 2.5*1e-5 is not
// the nearest number to 2.5e-05, and the label value would show it. The native buckets are a tenth wide. When
// more than a hundred are in use, client_golang joins them in pairs; it never resets the counts.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{
			1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
			1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1, 5e-1, 1, 2.5, 5, 10,
		},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramZeroThreshold:   1e-9,
		NativeHistogramMaxBucketNumber: 100,
	}
}

// take counts a duration; an observer may be nil. A negative duration, of a clock that was set back, counts as 0.
// A duration that is not finite is not counted: it would spoil the sum.
func take(o prometheus.Observer, seconds float64, trace string) {
	if o == nil || !finite(seconds) {
		return
	}
	seconds = max(seconds, 0)
	if e, ok := o.(prometheus.ExemplarObserver); ok && trace != "" {
		// The name that OpenTelemetry gives to the label of an exemplar.
		e.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace})
		return
	}
	o.Observe(seconds)
}
