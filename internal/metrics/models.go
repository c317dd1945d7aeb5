package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Source lists the models of the server with their live statistics.
type Source interface {
	// Each calls yield once for each model. It is called at every scrape, by
	// one scrape at a time, and should take no longer than copying numbers.
	Each(yield func(Model))
}

// Model is what one model says of itself at one moment. A number that is not
// finite is shown as not known: its series is left out.
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
	// RegretBound is what the theory promises of Regret: NaN of a learner that
	// it promises nothing of, since 0 would be a promise.
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

// modelCollector reads the models at scrape time.
type modelCollector struct {
	source Source
	slots  *slots

	aggregated                          *prometheus.Desc
	observations, predictions, loss     *prometheus.Desc
	regret, regretBound, certificate    *prometheus.Desc
	features, stateBytes, pendingLabels *prometheus.Desc
	expiredLabels, readOnly             *prometheus.Desc

	// scrape is held for a whole scrape, over calls of the source. Lock order:
	// scrape, then the source's own locks; scrape, then slots.
	scrape struct {
		sync.Mutex
		listed map[key]struct{}
		own    []Model
		others others
	}
}

func newModelCollector(src Source, s *slots) *modelCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hindsight_"+name, help, labels, nil)
	}
	c := &modelCollector{
		source: src,
		slots:  s,
		aggregated: desc("models_aggregated",
			`Models without series of their own, shown together under the model label "other".`),
		observations: desc("observations_total", "Observations learned.", labelModel, labelLearner),
		predictions:  desc("predictions_total", "Predictions answered.", labelModel, labelLearner),
		loss: desc("loss_sum",
			"Sum of the losses: prequential, of the predictions made just before each observation was learned; served, of the predictions given to the caller.",
			labelModel, labelLearner, labelKind),
		regret: desc("regret",
			"Prequential loss less the loss of the best fixed function in hindsight.", labelModel, labelLearner),
		regretBound: desc("regret_bound", "What the theory promises of the regret.", labelModel, labelLearner),
		certificate: desc("certificate_ok",
			"1 while the account of the regret is consistent, 0 when the state is corrupt.", labelModel, labelLearner),
		features:      desc("features", "Features of the model.", labelModel, labelLearner),
		stateBytes:    desc("state_bytes", "Memory that the model's state takes.", labelModel, labelLearner),
		pendingLabels: desc("pending_labels", "Predictions that wait for their label.", labelModel, labelLearner),
		expiredLabels: desc("expired_labels_total", "Predictions whose label did not come in time.", labelModel, labelLearner),
		readOnly: desc("read_only",
			"1 when the model no longer learns, because storage failed or its state is corrupt.", labelModel, labelLearner),
	}
	c.scrape.listed = make(map[key]struct{})
	c.scrape.others = newOthers()
	return c
}

// Describe implements prometheus.Collector.
func (c *modelCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.aggregated, c.observations, c.predictions, c.loss, c.regret,
		c.regretBound, c.certificate, c.features, c.stateBytes, c.pendingLabels,
		c.expiredLabels, c.readOnly,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *modelCollector) Collect(ch chan<- prometheus.Metric) {
	c.scrape.Lock()
	defer c.scrape.Unlock()
	c.read()
	for _, m := range c.scrape.own {
		c.show(ch, m)
	}
	others := &c.scrape.others
	for _, learner := range slices.Sorted(maps.Keys(others.present)) {
		c.show(ch, others.sum(learner))
	}
	ch <- prometheus.MustNewConstMetric(c.aggregated, prometheus.GaugeValue, float64(len(others.last)))
}

// read asks the source for its models and sorts them into those with series
// of their own and the others. It needs the scrape lock.
func (c *modelCollector) read() {
	clear(c.scrape.listed)
	c.scrape.own = c.scrape.own[:0]
	others := &c.scrape.others
	others.begin()
	c.source.Each(func(m Model) {
		k := newKey(m.Name, m.Learner)
		m.Learner = k.learner
		if _, twice := c.scrape.listed[k]; twice {
			return // the registry refuses a whole scrape that repeats a series
		}
		c.scrape.listed[k] = struct{}{}
		if c.slots.owns(k) {
			c.scrape.own = append(c.scrape.own, m)
		} else {
			others.add(k, m)
		}
	})
	others.end(c.scrape.listed)
	c.slots.sweep(c.scrape.listed)
}

func (c *modelCollector) show(ch chan<- prometheus.Metric, m Model) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
		if finite(v) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{m.Name, m.Learner}, more...)...)
		}
	}
	put(c.observations, prometheus.CounterValue, float64(m.Observations))
	put(c.predictions, prometheus.CounterValue, float64(m.Predictions))
	// The losses only grow, but a counter of this name would be exposed as
	// hindsight_loss_sum_total to a scraper that speaks OpenMetrics, and a
	// gauge may not end in _sum. Of no declared type the name stands, and
	// rate() takes it without a remark because it ends in _sum.
	put(c.loss, prometheus.UntypedValue, m.PrequentialLoss, "prequential")
	put(c.loss, prometheus.UntypedValue, m.ServedLoss, "served")
	put(c.regret, prometheus.GaugeValue, m.Regret)
	put(c.regretBound, prometheus.GaugeValue, m.RegretBound)
	put(c.certificate, prometheus.GaugeValue, flag(m.CertificateOK))
	put(c.features, prometheus.GaugeValue, float64(m.Features))
	put(c.stateBytes, prometheus.GaugeValue, float64(m.StateBytes))
	put(c.pendingLabels, prometheus.GaugeValue, float64(m.PendingLabels))
	put(c.expiredLabels, prometheus.CounterValue, float64(m.ExpiredLabels))
	put(c.readOnly, prometheus.GaugeValue, flag(m.ReadOnly))
}
