package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// row is one metric of what a source yields. A number that is not finite has
// no series.
type row[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(T) float64
}

// stats is a struct of numbers that has a table.
type stats[T any] interface{ rows() []row[T] }

// table shows what read yields, row by row.
type table[T any] struct {
	read  func() T
	rows  []row[T]
	descs []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (t *table[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *table[T]) Collect(ch chan<- prometheus.Metric) {
	read := t.read()
	for i, r := range t.rows {
		if v := r.value(read); finite(v) {
			ch <- prometheus.MustNewConstMetric(t.descs[i], r.kind, v)
		}
	}
}
