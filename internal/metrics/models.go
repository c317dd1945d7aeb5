package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Source lists the models of the server with their live statistics.
type Source interface {
	// Each calls yield once for each model. It is called at every scrape, by
	// one scrape at a time, and should take no longer than copying numbers.
	Each(yield func(Model))
}

// Model is what one model says of itself at one moment. A number that is not
// finite is not known, and has no series.
type Model struct {
	// Name and Learner are the labels.
	Name, Learner string
	// Observations counts the observations learned.
	Observations uint64
	// Predictions counts the predictions answered.
	Predictions uint64
	// PrequentialLoss is the loss of the predictions made just before each
	// observation was learned.
	PrequentialLoss float64
	// ServedLoss is the loss of the predictions that the caller was given.
	ServedLoss float64
	// Regret is PrequentialLoss less the loss of the best fixed function in
	// hindsight.
	Regret float64
	// RegretAge counts the observations learned since Regret was solved. It is
	// 0 for a learner that tracks its regret in each round.
	RegretAge uint64
	// RegretBound is what the theory promises of Regret. It is NaN for a
	// learner without a promise, since 0 would be one.
	RegretBound float64
	// CertificateOK says that the account of Regret is consistent.
	CertificateOK bool
	// Features is the number of features.
	Features int
	// StateBytes is the memory that the state takes.
	StateBytes uint64
	// PendingLabels counts the predictions that wait for their label.
	PendingLabels uint64
	// ExpiredLabels counts the predictions whose label did not come in time.
	ExpiredLabels uint64
	// ReadOnly says that the model no longer learns.
	ReadOnly bool
}

// sample is one series of a scrape. It does not change afterwards, except for
// the durations that its timing takes.
type sample struct {
	key
	text   string
	values []float64 // of each row; nil if the source lists no model of the series
	timing *timing   // nil before the first Timings
}

// read reads the source and yields the samples in the order in which
// Prometheus sorts them.
func (m *models) read() []sample {
	m.scrape.Lock()
	defer m.scrape.Unlock()
	source := m.begin()
	if source != nil {
		source.Each(m.add)
	}
	samples := m.end()
	slices.SortFunc(samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.learner, b.learner), cmp.Compare(a.model, b.model))
	})
	return samples
}

func (m *models) begin() Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.scrapes++
	m.mu.others = 0
	return m.mu.source
}

// add takes one model of the scrape.
func (m *models) add(live Model) {
	k := newKey(live.Name, live.Learner)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.find(k)
	if p.seen == m.mu.scrapes {
		return // A scrape must not repeat a series.
	}
	p.seen = m.mu.scrapes
	s := p.series
	first := s.seen != m.mu.scrapes
	if first {
		s.seen = m.mu.scrapes
		s.values = append(make([]float64, 0, len(m.rows)), s.values...)[:len(m.rows)] // The last scrape may still be printed.
	}
	if !p.own {
		m.mu.others++
		if p.last == nil {
			p.last = make([]float64, len(m.rows))
		}
	}
	for i, r := range m.rows {
		switch v := r.value(live); {
		case r.together == growth && !p.own:
			// A number that is not known has not grown, nor has that of a model
			// that was set back to an earlier state.
			if finite(v) {
				s.values[i] += max(v-p.last[i], 0)
				p.last[i] = v
			}
		case first:
			s.values[i] = v
		case r.together == sum:
			s.values[i] += v
		case r.together == least:
			s.values[i] = min(s.values[i], v)
		case r.together == most:
			s.values[i] = max(s.values[i], v)
		}
	}
}

// end drops the models that are gone, and yields what is there in no order.
func (m *models) end() []sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.mu.places {
		if p.seen == m.mu.scrapes {
			continue
		}
		p.last = nil
		if !p.held {
			m.remove(k, p)
		}
	}
	samples := make([]sample, 0, len(m.mu.series))
	for _, s := range m.mu.series {
		shown := sample{key: s.key, text: s.text, timing: s.timing}
		if s.seen == m.mu.scrapes {
			shown.values = s.values
		}
		samples = append(samples, shown)
	}
	return samples
}

// Describe implements prometheus.Collector.
func (m *models) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		ch <- d
	}
	for _, r := range timingRows() {
		ch <- prometheus.NewDesc(r.name, r.help, []string{labelModel, labelLearner}, nil)
	}
}

// Collect implements prometheus.Collector.
func (m *models) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.read() {
		for i, v := range s.values {
			if !finite(v) {
				continue
			}
			labels := []string{s.model, s.learner}
			if kind := m.rows[i].label; kind != "" {
				labels = append(labels, kind)
			}
			ch <- prometheus.MustNewConstMetric(m.descs[i], m.rows[i].kind, v, labels...)
		}
		if s.timing != nil {
			for _, h := range s.timing {
				ch <- h
			}
		}
	}
}
