package metrics

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	labelModel   = "model"
	labelLearner = "learner"
	labelKind    = "kind"
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

// liveModels shows what is of a model: its rows and its timings.
type liveModels struct {
	rows       []modelRow
	descs      []*prometheus.Desc // of each row
	families   []family
	slots      *slots
	aggregated atomic.Int64 // models among the others, at the last scrape

	// scrape is held while the source is read. Lock order: scrape, then the
	// locks of the source; scrape, then slots.
	scrape struct {
		sync.Mutex
		source Source
		listed map[key]struct{}
		others others
	}
}

// sample is one set of labels in a scrape.
type sample struct {
	*series
	values []float64 // of each row; nil if the source does not list the model
	timing *timing   // nil before the first Timings
}

func newLiveModels(limit int) *liveModels {
	c := &liveModels{rows: modelRows(), slots: newSlots(limit)}
	for _, r := range c.rows {
		labels := []string{labelModel, labelLearner}
		if r.label != "" {
			labels = append(labels, labelKind)
		}
		c.descs = append(c.descs, prometheus.NewDesc(r.name, r.help, labels, nil))
	}
	c.families = newFamilies(c.rows)
	c.scrape.listed = make(map[key]struct{})
	c.scrape.others = newOthers(c.rows)
	return c
}

func (c *liveModels) watch(source Source) {
	c.scrape.Lock()
	defer c.scrape.Unlock()
	c.scrape.source = source
}

// Describe implements prometheus.Collector.
func (c *liveModels) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
	for _, vec := range c.slots.vecs {
		vec.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *liveModels) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.read() {
		for i, v := range s.values {
			if !finite(v) {
				continue
			}
			labels := []string{s.model, s.learner}
			if kind := c.rows[i].label; kind != "" {
				labels = append(labels, kind)
			}
			ch <- prometheus.MustNewConstMetric(c.descs[i], c.rows[i].kind, v, labels...)
		}
		if s.timing != nil {
			for _, h := range s.timing {
				ch <- h
			}
		}
	}
}

// read asks the source for its models and yields a sample for each set of
// labels, in the order in which Prometheus sorts them. Nobody changes a sample
// afterwards but for what its timing counts.
func (c *liveModels) read() []sample {
	c.scrape.Lock()
	defer c.scrape.Unlock()
	values := make(map[*series][]float64)
	if c.scrape.source != nil {
		c.readModels(values)
	}
	samples := c.slots.samples()
	for i := range samples {
		samples[i].values = values[samples[i].series]
	}
	slices.SortFunc(samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.learner, b.learner), cmp.Compare(a.model, b.model))
	})
	return samples
}

// readModels reads the source into values. It needs the scrape lock.
func (c *liveModels) readModels(values map[*series][]float64) {
	clear(c.scrape.listed)
	others := &c.scrape.others
	others.begin()
	now := make([]float64, len(c.rows))
	c.scrape.source.Each(func(m Model) {
		k := newKey(m.Name, m.Learner)
		if _, twice := c.scrape.listed[k]; twice {
			return // A scrape must not repeat a series.
		}
		c.scrape.listed[k] = struct{}{}
		for i, r := range c.rows {
			now[i] = r.value(m)
		}
		if s, own := c.slots.find(k); own {
			values[s] = slices.Clone(now)
		} else {
			values[s] = others.add(k, now)
		}
	})
	others.end(c.scrape.listed)
	c.slots.sweep(c.scrape.listed)
	c.aggregated.Store(int64(len(others.last)))
}
