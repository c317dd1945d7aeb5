package metrics

import (
	"fmt"
	"math"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Timings takes the durations of one model's calls. It is resolved once, so
// that a call costs one histogram and no search. The zero value drops what it
// takes.
type Timings struct{ of *timing }

// What is timed: the rows of timingRows and the histograms of a series.
const (
	predict = iota
	observe
	timed
)

// timingRow is one histogram that every model in use has.
type timingRow struct{ name, help string }

func timingRows() [timed]timingRow {
	return [timed]timingRow{
		predict: {"hindsight_predict_seconds", "Duration of Predict calls, by model."},
		observe: {"hindsight_observe_seconds", "Duration of Observe calls by model, from arrival to answer: queue, log, fsync and learning."},
	}
}

// timing has the histograms of one series.
type timing [timed]*histogram

// Timings resolves the histograms of a model, which gets series of its own if
// there is room. A second call for the same model answers the same.
func (m *Metrics) Timings(model, learner string) Timings {
	return Timings{m.models.hold(newKey(model, learner))}
}

// Forget drops the series of a deleted model and frees its place. It is called
// before the name is given to another model. Timings of the model that are
// still in use take durations that no scrape shows. A call for an unknown
// model does nothing.
func (m *Metrics) Forget(model, learner string) {
	m.models.release(newKey(model, learner))
}

// Predict takes the duration of one Predict call. A trace is the id of the sampled
// trace that it belongs to, empty without one: it becomes an exemplar.
func (t Timings) Predict(seconds float64, trace string) {
	if t.of != nil {
		t.of[predict].take(seconds, trace)
	}
}

// Observe takes the duration of one Observe call, from its arrival to its
// answer, and the trace as Predict does.
func (t Timings) Observe(seconds float64, trace string) {
	if t.of != nil {
		t.of[observe].take(seconds, trace)
	}
}

// bounds is the number of classic buckets that have an upper bound.
const bounds = 22

// histogram counts durations in the native buckets of client_golang, for a
// scraper that asks for them, and in classic ones of its own. To read a
// histogram of client_golang costs at least 50 allocations; to read the classic
// buckets costs none, so the text format costs the same whether models are
// used or not.
type histogram struct {
	prometheus.Histogram
	buckets [bounds + 1]atomic.Uint64
	sum     atomic.Uint64 // bits of a float64, in seconds
	// exemplars are the newest ones of the classic buckets; nil before the first.
	exemplars atomic.Pointer[exemplars]
}

// exemplars are the newest ones of buckets.
type exemplars [bounds + 1]atomic.Pointer[prometheus.Exemplar]

// Native buckets are a tenth wide, and there are at most nativeBuckets of them.
const (
	nativeFactor  = 1.1
	nativeZero    = 1e-9
	nativeBuckets = 100
)

// classic is the classic side of a histogram at one moment.
type classic struct {
	buckets [bounds + 1]uint64 // cumulative; the last has all
	sum     float64            // in seconds
}

// newTiming makes histograms with native buckets that are a tenth wide. They
// cost a duration 20 ns, no allocation, and at most a few KiB a model. When
// there are more than a hundred, client_golang joins them in pairs; it never
// sets the counts back, which would part them from the classic ones.
func newTiming(k key) *timing {
	t := new(timing)
	for i, r := range timingRows() {
		t[i] = &histogram{Histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                           r.name,
			Help:                           r.help,
			ConstLabels:                    prometheus.Labels{labelModel: k.model, labelLearner: k.learner},
			NativeHistogramBucketFactor:    nativeFactor,
			NativeHistogramZeroThreshold:   nativeZero,
			NativeHistogramMaxBucketNumber: nativeBuckets,
		})}
	}
	return t
}

// take counts a duration. A negative one, of a clock that was set back, counts as
// 0. One that is not finite is not counted: it would spoil the sum.
func (h *histogram) take(seconds float64, trace string) {
	if !finite(seconds) {
		return
	}
	seconds = max(seconds, 0)
	h.Observe(seconds)
	limits := timingBuckets()
	bucket := sort.SearchFloat64s(limits[:], seconds)
	h.buckets[bucket].Add(1)
	if trace != "" {
		h.exemplify(bucket, seconds, trace)
	}
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+seconds)) {
			return
		}
	}
}

// exemplify keeps the newest exemplar of a bucket.
func (h *histogram) exemplify(bucket int, seconds float64, trace string) {
	all := h.exemplars.Load()
	if all == nil {
		h.exemplars.CompareAndSwap(nil, new(exemplars))
		all = h.exemplars.Load()
	}
	now := time.Now() //nolint:forbidigo // The time of an exemplar; nothing depends on it.
	all[bucket].Store(&prometheus.Exemplar{Value: seconds, Labels: prometheus.Labels{labelTrace: trace}, Timestamp: now})
}

// metric is the histogram with its exemplars.
func (h *histogram) metric() prometheus.Metric {
	all := h.exemplars.Load()
	if all == nil {
		return h
	}
	var newest []prometheus.Exemplar
	for i := range all {
		if e := all[i].Load(); e != nil {
			newest = append(newest, *e)
		}
	}
	traced, err := prometheus.NewMetricWithExemplars(h, newest...)
	if err != nil {
		return h // A trace id that no label can have.
	}
	return traced
}

// classic reads the classic buckets.
func (h *histogram) classic() classic {
	var c classic
	total := uint64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
		c.buckets[i] = total
	}
	c.sum = math.Float64frombits(h.sum.Load())
	return c
}

// Write implements prometheus.Metric: native and classic buckets together. The
// classic ones are read first and take a duration last, so that none of them
// ever has more than the count of all.
func (h *histogram) Write(out *dto.Metric) error {
	c := h.classic()
	if err := h.Histogram.Write(out); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	out.Histogram.SampleSum = &c.sum
	for i, limit := range timingBuckets() {
		out.Histogram.Bucket = append(out.Histogram.Bucket, &dto.Bucket{UpperBound: &limit, CumulativeCount: &c.buckets[i]})
	}
	return nil
}

// timingBuckets are 1, 2.5 and 5 of every power of ten from 1 µs to 10 s.
// They are written out because a product like 2.5*1e-5 is not the nearest
// number to 2.5e-05, and the label value would show it.
func timingBuckets() [bounds]float64 {
	return [bounds]float64{
		1e-6, 2.5e-6, 5e-6,
		1e-5, 2.5e-5, 5e-5,
		1e-4, 2.5e-4, 5e-4,
		1e-3, 2.5e-3, 5e-3,
		1e-2, 2.5e-2, 5e-2,
		1e-1, 2.5e-1, 5e-1,
		1, 2.5, 5,
		10,
	}
}
