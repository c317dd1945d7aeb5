package metrics

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/figures"
)

// Source lists the models of the server with their live statistics.
type Source interface {
	// Each calls yield once for each model. Every scrape calls Each, one scrape at a time. Each should
	// take no longer than copying numbers.
	Each(yield func(*figures.Live))
}

// sample is one series of a scrape. It does not change afterwards, except for
// the durations that its timing takes.
type sample struct {
	key
	text   string
	values []float64 // of each row; nil if the source lists no model of the series
	parts  *parts    // nil if the source lists no model of the series
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
	m.mu.listed, m.mu.others, m.mu.omitted = 0, 0, [kindsOfParts]int{}
	return m.mu.source
}

// add takes one model of the scrape.
func (m *models) add(live *figures.Live) {
	k := newKey(live.ID, live.Learner)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.find(k)
	if p.seen == m.mu.scrapes {
		return // A scrape must not repeat a series.
	}
	p.seen = m.mu.scrapes
	m.mu.listed++
	s := p.series
	if s.seen != m.mu.scrapes {
		s.seen = m.mu.scrapes
		// The last scrape may still be printed.
		s.values = slices.Clone(s.values)
		s.beginParts(&m.kinds)
		for i, r := range m.rows {
			if r.together != growth {
				s.values[i] = r.together.start()
			}
		}
	}
	if p.own {
		m.set(p, live, s.values)
	} else {
		m.mu.others++
		m.join(p, live)
	}
	m.addParts(s, live, p.own)
}

// set sets the values of a model in its own series.
func (m *models) set(p *place, live *figures.Live, values []float64) {
	if p.counts == nil {
		p.counts = make([]count, m.growing)
	}
	counts := p.counts
	for i, r := range m.rows {
		v := r.value(live)
		if r.together == growth {
			v = counts[0].show(v)
			counts = counts[1:]
		}
		values[i] = v
	}
}

// Counted takes the statistics of a model just before and just after its state is replaced by an earlier one. What
// the model has learned since the last scrape then counts, and the next scrape shows no fall. A call for an unknown model
// does nothing.
func (m *Metrics) Counted(live *figures.Live) { m.models.counted(live) }

func (m *models) counted(live *figures.Live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.mu.places[newKey(live.ID, live.Learner)]
	if p == nil {
		return
	}
	if !p.own {
		p.series.values = slices.Clone(p.series.values) // The last scrape may still be printed.
		m.grow(p, live)
		return
	}
	m.set(p, live, make([]float64, len(m.rows)))
	m.countParts(p.series, live)
}

// countParts is counted for the parts that the last scrape had.
func (m *models) countParts(s *series, live *figures.Live) {
	for k := range m.kinds {
		kind := &m.kinds[k]
		for at := range kind.count(live) {
			one := partOf{live, at}
			name, ok := kind.name(m.mu.name[:0], one)
			m.mu.name = name
			p := named(s.parts.of(k), at, bytes.ToValidUTF8(name, []byte("?")))
			if !ok || p == nil {
				continue
			}
			for j, r := range kind.rows {
				if r.kind == counter {
					p.counts[j].show(r.value(one))
				}
			}
		}
	}
}

// count keeps one counter from falling when RestoreModel sets a model's state back: rate()
// takes a fall for a restart and adds the whole count again.
type count struct {
	// last is the number in the model's state at the last scrape or Counted, lost the sum of its falls.
	last, lost float64
}

// show returns the counter for the number v of the model's state: v + lost. A fall of v
// counts nothing. A number that is not known has no series, and its counter starts again.
func (c *count) show(v float64) float64 {
	if !finite(v) {
		*c = count{}
		return v
	}
	c.lost += max(c.last-v, 0)
	c.last = v
	return v + c.lost
}

// join takes a model into the values of the series that it shares.
func (m *models) join(p *place, live *figures.Live) {
	values := p.series.values
	for i, r := range m.rows {
		if r.together != growth {
			values[i] = r.together.join(values[i], r.value(live))
		}
	}
	m.grow(p, live)
}

// grow adds to the values of the series that a model shares what has grown of the model.
func (m *models) grow(p *place, live *figures.Live) {
	if p.last == nil {
		p.last = make([]float64, m.growing)
	}
	values, last := p.series.values, p.last
	for i, r := range m.rows {
		if r.together != growth {
			continue
		}
		v := r.value(live)
		// A number that is not known has not grown, nor has that of a model that
		// was set back to an earlier state.
		if finite(v) {
			if !finite(values[i]) {
				values[i] = 0
			}
			values[i] += max(v-last[0], 0)
			last[0] = v
		}
		last = last[1:]
	}
}

// end drops the models that are gone, and yields what is there in no order.
func (m *models) end() []sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.listed < len(m.mu.places) {
		m.removeUnlisted()
	}
	samples := make([]sample, 0, len(m.mu.series))
	for _, s := range m.mu.series {
		s.before, s.room = nil, nil
		shown := sample{key: s.key, text: s.text, timing: s.timing}
		if s.seen == m.mu.scrapes {
			shown.values, shown.parts = s.values, s.parts
		}
		samples = append(samples, shown)
	}
	return samples
}

// removeUnlisted needs the lock.
func (m *models) removeUnlisted() {
	for k, p := range m.mu.places {
		if p.seen == m.mu.scrapes {
			continue
		}
		p.last = nil
		if !p.held {
			m.remove(k, p)
		}
	}
}

// Describe implements prometheus.Collector.
func (m *models) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		ch <- d
	}
	for _, kind := range m.partDescs {
		for _, d := range kind {
			ch <- d
		}
	}
	for _, r := range timingRows() {
		ch <- prometheus.NewDesc(r.name, r.help, []string{labelModel, labelLearner}, nil)
	}
}

// Collect implements prometheus.Collector.
func (m *models) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.read() {
		for i, v := range s.values {
			if finite(v) {
				ch <- prometheus.MustNewConstMetric(m.descs[i], m.rows[i].kind, v, s.model, s.learner)
			}
		}
		for k := range m.kinds {
			for _, p := range s.parts.of(k) {
				for i, v := range p.values {
					if finite(v) {
						ch <- prometheus.MustNewConstMetric(m.partDescs[k][i], m.kinds[k].rows[i].kind, v, p.name, s.model, s.learner)
					}
				}
			}
		}
		if s.timing != nil {
			for _, h := range s.timing {
				ch <- h.metric()
			}
		}
	}
}
