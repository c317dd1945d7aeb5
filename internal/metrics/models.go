package metrics

import (
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/figures"
)

// models collects the series of models.
//
// Lock order: scrape, the locks of the source, mu. Nothing is called under mu but client_golang.
type models struct {
	limit            int
	rows             []modelRow
	descs            []*prometheus.Desc // of each row
	nominal, recent  *prometheus.Desc   // of each interval level
	without          *prometheus.Desc
	predict, observe *prometheus.HistogramVec

	scrape  sync.Mutex // held while the source is read
	scrapes uint64     // begun

	mu     sync.Mutex
	places map[key]*place
}

type key struct{ model, learner string }

type place struct {
	seen   uint64  // the last scrape that listed the model
	counts []count // of each row; a gauge does not use its count
}

func newModels(limit int) *models {
	labels := []string{"model", "learner"}
	levels := append([]string{"coverage"}, labels...)
	m := &models{
		limit: limit, rows: modelRows(), places: make(map[key]*place),
		// PromQL computes with values and not with labels.
		nominal: prometheus.NewDesc("hindsight_interval_nominal_coverage", "The label coverage as a number.", levels, nil),
		recent:  prometheus.NewDesc("hindsight_interval_recent_coverage", "Share of labels inside the last 1000 evaluated intervals.", levels, nil),
		without: prometheus.NewDesc("hindsight_models_without_series", "Models without series, beyond --metrics-max-models.", nil, nil),
		predict: prometheus.NewHistogramVec(durations("hindsight_predict_seconds", "Duration of Predict calls, by model."), labels),
		observe: prometheus.NewHistogramVec(durations("hindsight_observe_seconds",
			"Duration of Observe calls by model, from arrival to answer: queue, log, fsync and learning."), labels),
	}
	for _, r := range m.rows {
		m.descs = append(m.descs, prometheus.NewDesc(r.name, r.help, labels, r.labels))
	}
	return m
}

// WatchModels registers the series of models. Every scrape calls each, one scrape at a time, which yields the live
// statistics of each model. A second call of WatchModels fails.
func (m *Metrics) WatchModels(each func(yield func(*figures.Live))) error {
	return m.register(collector{m.models, each})
}

type collector struct {
	*models
	each func(yield func(*figures.Live))
}

// Timings takes the durations of one model's calls. The zero value drops the durations.
type Timings struct{ predict, observe prometheus.Observer }

// Timings returns the histograms of a model, and gives the model a place if one is free. A second call for the
// same model returns the same histograms.
func (m *Metrics) Timings(model, learner string) Timings {
	all, k := m.models, key{model, learner}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.places[k] == nil {
		if len(all.places) >= all.limit || !utf8.ValidString(model) || !utf8.ValidString(learner) {
			return Timings{}
		}
		all.places[k] = &place{counts: make([]count, len(all.rows))}
	}
	return Timings{all.predict.WithLabelValues(model, learner), all.observe.WithLabelValues(model, learner)}
}

// Forget drops the series of a deleted model and frees its place. The engine calls Forget before it gives the name
// to another model. A call for an unknown model does nothing.
func (m *Metrics) Forget(model, learner string) {
	all := m.models
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.places, key{model, learner})
	all.predict.DeleteLabelValues(model, learner)
	all.observe.DeleteLabelValues(model, learner)
}

// Predict takes the duration of one Predict call. A trace is the id of the call's sampled trace, empty without
// one: it becomes an exemplar.
func (t Timings) Predict(seconds float64, trace string) { take(t.predict, seconds, trace) }

// Observe takes the duration of one Observe call, from its arrival to its answer, and the trace as Predict does.
func (t Timings) Observe(seconds float64, trace string) { take(t.observe, seconds, trace) }

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

// Counted takes the statistics of a model just before and just after its state is replaced by an earlier one. What
// the model has learned since the last scrape then counts, and the next scrape shows no fall. A call for a model
// without a place does nothing.
func (m *Metrics) Counted(live *figures.Live) {
	all := m.models
	all.mu.Lock()
	defer all.mu.Unlock()
	if p := all.places[key{live.ID, live.Learner}]; p != nil {
		all.set(p, live, make([]float64, len(all.rows)))
	}
}

// set computes the values of all rows of a model. The caller holds mu.
func (m *models) set(p *place, live *figures.Live, values []float64) {
	for i, r := range m.rows {
		values[i] = r.value(live)
		if r.kind == counter {
			values[i] = p.counts[i].show(values[i])
		}
	}
}

func (m *models) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(m.descs, []*prometheus.Desc{m.nominal, m.recent, m.without}) {
		ch <- d
	}
}

func (m collector) Collect(ch chan<- prometheus.Metric) {
	m.scrape.Lock()
	defer m.scrape.Unlock()
	m.scrapes++
	without, values := 0, make([]float64, len(m.rows))
	m.each(func(live *figures.Live) {
		hasPlace, first := m.read(live, values)
		if !hasPlace {
			without++
		}
		if first {
			m.send(ch, live, values)
		}
	})
	ch <- prometheus.MustNewConstMetric(m.without, gauge, float64(without))
}

// read sets the values of a model if it has a place and the scrape lists it for the first time: a scrape that
// repeats a series fails as a whole.
func (m *models) read(live *figures.Live, values []float64) (hasPlace, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.places[key{live.ID, live.Learner}]
	if p == nil || p.seen == m.scrapes {
		return p != nil, false
	}
	p.seen = m.scrapes
	m.set(p, live, values)
	return true, true
}

func (m *models) send(ch chan<- prometheus.Metric, live *figures.Live, values []float64) {
	for i, v := range values {
		if finite(v) {
			ch <- prometheus.MustNewConstMetric(m.descs[i], m.rows[i].kind, v, live.ID, live.Learner)
		}
	}
	for i := range live.Intervals {
		level := &live.Intervals[i]
		label := strconv.FormatFloat(level.Level, 'g', -1, 64)
		ch <- prometheus.MustNewConstMetric(m.nominal, gauge, level.Level, label, live.ID, live.Learner)
		if level.Scored >= recent && finite(level.RecentCoverage) {
			ch <- prometheus.MustNewConstMetric(m.recent, gauge, level.RecentCoverage, label, live.ID, live.Learner)
		}
	}
}
