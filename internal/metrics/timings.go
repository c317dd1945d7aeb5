package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Timings takes the durations of one model's calls. It is resolved once, so
// that a call costs one histogram and looks nothing up. The zero value takes
// durations and drops them.
type Timings struct {
	predict, observe prometheus.Observer
}

// Timings resolves the histograms of a model, which takes a place among the
// models with series of their own if there is one. It may be called again for
// the same model and answers the same.
func (m *Metrics) Timings(model, learner string) Timings {
	var t Timings
	m.slots.hold(newKey(model, learner), func(series key) {
		t.predict = m.timings.predict.WithLabelValues(series.model, series.learner)
		t.observe = m.timings.observe.WithLabelValues(series.model, series.learner)
	})
	return t
}

// Forget drops the series of a deleted model and frees its place. It is
// called before the name is given to another model; Timings that are still
// held go on working and are shown nowhere. Forgetting an unknown model does
// nothing.
func (m *Metrics) Forget(model, learner string) {
	m.slots.release(newKey(model, learner), func(series key) {
		m.timings.predict.DeleteLabelValues(series.model, series.learner)
		m.timings.observe.DeleteLabelValues(series.model, series.learner)
	})
}

// Predict takes the duration of one Predict call.
func (t Timings) Predict(seconds float64) { observe(t.predict, seconds) }

// Observe takes the duration of one Observe call, from its arrival to its
// answer.
func (t Timings) Observe(seconds float64) { observe(t.observe, seconds) }

// observe keeps what would spoil a sum out of it: a clock that went backwards
// counts as no time, and what is not a number of seconds counts as nothing.
func observe(o prometheus.Observer, seconds float64) {
	if o == nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return
	}
	o.Observe(max(seconds, 0))
}

type timingVecs struct {
	predict, observe *prometheus.HistogramVec
}

func newTimingVecs() *timingVecs {
	return &timingVecs{
		predict: newTimingVec("hindsight_predict_seconds",
			"Duration of Predict calls, by model."),
		observe: newTimingVec("hindsight_observe_seconds",
			"Duration of Observe calls by model, from arrival to answer: queue, log, fsync and learning."),
	}
}

// newTimingVec makes a histogram with the classic buckets and, for a scraper
// that asks for them, native ones that are a tenth wide. The latter cost an
// observation 20 ns, no allocation, and at most a few KiB a model.
func newTimingVec(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            name,
		Help:                            help,
		Buckets:                         timingBuckets(),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramZeroThreshold:    1e-9,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{labelModel, labelLearner})
}

// timingBuckets are 1, 2.5 and 5 of every power of ten from 1 µs to 10 s.
// They are written out because a product such as 2.5*1e-5 is not the nearest
// number to 2.5e-05, and the label value would show it.
func timingBuckets() []float64 {
	return []float64{
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
