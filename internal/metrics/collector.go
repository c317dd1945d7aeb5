package metrics

import "github.com/prometheus/client_golang/prometheus"

// figure is one number of what is read at a scrape.
type figure[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

// collector reads something at scrape time and shows its figures.
type collector[T any] struct {
	read    func() T
	figures []figure[T]
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(ch chan<- prometheus.Metric) {
	read := c.read()
	for _, f := range c.figures {
		if v := f.value(read); finite(v) {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v)
		}
	}
}
