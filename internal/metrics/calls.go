package metrics

import "github.com/prometheus/client_golang/prometheus"

// Calls counts and times the calls of a gRPC server. The names of the metrics are the names of go-grpc-middleware, which
// looks the metrics up at every call.
type Calls struct {
	started, handled *prometheus.CounterVec
	seconds          *prometheus.HistogramVec
}

// NewCalls returns the metrics of one server. The caller registers them.
func NewCalls() *Calls {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	return &Calls{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpc_server_started_total", Help: "Total number of RPCs started on the server.",
		}, labels),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpc_server_handled_total", Help: "Total number of RPCs completed on the server, regardless of success or failure.",
		}, append(labels, "grpc_code")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Help: "Histogram of response latency (seconds) of gRPC that had been application-level handled by the server.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 10), NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, labels),
	}
}

// Describe implements prometheus.Collector.
func (c *Calls) Describe(ch chan<- *prometheus.Desc) {
	c.started.Describe(ch)
	c.handled.Describe(ch)
	c.seconds.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Calls) Collect(ch chan<- prometheus.Metric) {
	c.started.Collect(ch)
	c.handled.Collect(ch)
	c.seconds.Collect(ch)
}

// Method counts and times the calls of one method.
type Method struct {
	started prometheus.Counter
	handled []prometheus.Counter
	seconds prometheus.Observer
}

// Method returns the metrics of a method, whose calls end with one of the codes. The metrics exist from the start: a series
// that begins at 0 shows its first event to rate().
func (c *Calls) Method(kind, service, name string, codes []string) *Method {
	m := &Method{started: c.started.WithLabelValues(kind, service, name), seconds: c.seconds.WithLabelValues(kind, service, name)}
	for _, code := range codes {
		m.handled = append(m.handled, c.handled.WithLabelValues(kind, service, name, code))
	}
	return m
}

// Begin counts a call that begins.
func (m *Method) Begin() { m.started.Inc() }

// End counts the end of a call. Code is the place of the call's code among the codes of Method. Trace is the id of the call's
// sampled trace, which becomes an exemplar, or empty.
func (m *Method) End(code int, seconds float64, trace string) {
	m.handled[code].Inc()
	take(m.seconds, seconds, trace)
}
