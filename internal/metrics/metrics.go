// Package metrics registers the instruments of the server as collectors of client_golang.
//
// A metric of the server is a Row: see Watch. A metric of each model is a row of modelRows. A scrape reads the
// values of both. The data path hands durations to Timings and Stages.
//
// # Bounded series
//
// A model has some eighty-five lines of text, so Options.MaxModels bounds how many models have series. A model takes a
// place when the engine asks for its Timings, and keeps the place until Forget. A model without a place has no
// series; the gauge hindsight_models_without_series counts these models.
package metrics

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// Options of Metrics.
type Options struct {
	// Version is the version of the server, for hindsight_build_info.
	Version string
	// MaxModels bounds how many models have series.
	MaxModels int
}

// Metrics is the set of instruments of one server. Its methods may be called concurrently, and under any lock.
type Metrics struct {
	registry prometheus.Registerer
	models   *models
	// Stages takes the durations of the stages of an observation.
	Stages *Stages
}

// New registers the instruments that need no source: timings, build information, the Go runtime and the process.
// After an error some instruments may stay registered.
func New(registry prometheus.Registerer, opts Options) (*Metrics, error) {
	m := &Metrics{registry: registry, models: newModels(opts.MaxModels), Stages: newStages()}
	return m, m.register(m.Stages.queue, m.Stages.commit, m.Stages.learn, m.Stages.fsync, m.models.predict, m.models.observe,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hindsight_build_info", Help: "The running build; always 1.",
			ConstLabels: prometheus.Labels{"version": strings.ToValidUTF8(opts.Version, "?"), "go_version": runtime.Version()},
		}, func() float64 { return 1 }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func (m *Metrics) register(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// Rejections registers the counter of rejected calls. The function returned counts a call by the reason in its error.
// Each of the reasons has a series from the start: a series that begins at 0 shows its first event to rate().
func (m *Metrics) Rejections(reasons []string) (rejected func(reason string), err error) {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hindsight_rejections_total",
		Help: "Rejected and failed calls, other HTTP requests included, by reason, else by code.",
	}, []string{"reason"})
	for _, reason := range reasons {
		vector.WithLabelValues(reason)
	}
	return func(reason string) { vector.WithLabelValues(reason).Inc() }, m.register(vector)
}

// Row is a metric of a T: a counter if the name ends in _total, else a gauge. A value that is not finite has no
// series.
type Row[T any] struct {
	Name, Help string
	Value      func(T) float64
}

// Watch registers rows of what read returns. Every scrape calls read once, and several scrapes may call read at
// once.
func Watch[T any](m *Metrics, read func() T, rows ...Row[T]) error {
	t := table[T]{read: read, rows: rows}
	for _, r := range rows {
		t.descs = append(t.descs, prometheus.NewDesc(r.Name, r.Help, nil, nil))
	}
	return m.register(t)
}

type table[T any] struct {
	read  func() T
	rows  []Row[T]
	descs []*prometheus.Desc
}

func (t table[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		ch <- d
	}
}

func (t table[T]) Collect(ch chan<- prometheus.Metric) {
	of := t.read()
	for i, r := range t.rows {
		kind := gauge
		if strings.HasSuffix(r.Name, "_total") {
			kind = counter
		}
		if v := r.Value(of); finite(v) {
			ch <- prometheus.MustNewConstMetric(t.descs[i], kind, v)
		}
	}
}

// finite reports whether v has a series. A value that is unknown or overflowed has none.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func known(so bool, v float64) float64 {
	if so {
		return v
	}
	return math.NaN()
}

// Timestamp is a time in seconds since 1970, and NaN for the zero time.
func Timestamp(t time.Time) float64 { return known(!t.IsZero(), float64(t.UnixNano())/1e9) }

// Flag is 1 for true and 0 for false.
func Flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
