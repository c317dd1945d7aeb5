package metrics

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	labelModel     = "model"
	labelLearner   = "learner"
	labelKind      = "kind"
	labelBaseline  = "baseline"
	labelDirection = "direction"
	labelCoverage  = "coverage"
	labelInput     = "input"
	labelClass     = "class"
	labelBin       = "bin"
	labelPart      = "part"
	labelReason    = "reason"
	labelLevel     = "level"
	// The name that OpenTelemetry gives to the label of an exemplar.
	labelTrace = "trace_id"
)

// models decides which models have series of their own, and keeps the series.
// A decision stands until the model is forgotten. A model that found no free
// place stays among the others when one is freed: its series keep their labels,
// and the Timings that it holds stay true.
//
// Lock order: scrape, the locks of the source, mu. Nothing is called under mu.
type models struct {
	limit     int
	rows      []modelRow
	descs     []*prometheus.Desc // of each row
	growing   int                // rows of what only grows
	kinds     [kindsOfParts]partKind
	partDescs [kindsOfParts][]*prometheus.Desc // of each row

	scrape sync.Mutex // held while the source is read
	mu     struct {
		sync.Mutex
		source  Source
		scrapes uint64 // begun
		own     int    // places with series of their own
		others  int    // models among the others in the last scrape
		listed  int    // models in the last scrape
		places  map[key]*place
		series  map[key]*series
		adds    uint64            // models that were taken
		name    []byte            // of a part
		omitted [kindsOfParts]int // parts without series in the last scrape
	}
}

// key is the identity of a model, and that of a series.
type key struct{ model, learner string }

// newKey makes a key whose learner can always be a label value.
func newKey(model, learner string) key {
	return key{model: model, learner: strings.ToValidUTF8(learner, "?")}
}

// series is one set of labels: that of a model, or that which the others of a
// learner share.
type series struct {
	key
	text   string    // the labels as the text format writes them, sorted by name
	timing *timing   // nil before the first Timings
	values []float64 // of each row, at the scrape seen
	parts  *parts    // at the scrape seen
	before *parts    // at the one before it, while one is read
	room   []float64 // for the values of parts, while one is read
	seen   uint64
}

// place is the decision on one model.
type place struct {
	series *series
	own    bool
	// held says that Timings were handed out: only Forget ends the decision.
	// Otherwise it lasts as long as the source lists the model.
	held bool
	seen uint64 // the last scrape that listed the model
	// last has what only grows of a model among the others, row by row, at that
	// scrape. What only grows must not fall when one of the others is deleted:
	// rate() would take that for a restart and count all of it again. So their
	// series sum the growth from one scrape to the next.
	last []float64
	// counts are those of a model with series of its own, of each row that only grows.
	counts []count
}

func newModels(limit int) *models {
	m := &models{limit: limit, rows: modelRows(), kinds: partKinds()}
	labels := []string{labelModel, labelLearner}
	for _, r := range m.rows {
		m.descs = append(m.descs, prometheus.NewDesc(r.name, r.help, labels, r.own))
		if r.together == growth {
			m.growing++
		}
	}
	for k, kind := range m.kinds {
		for _, r := range kind.rows {
			desc := prometheus.NewDesc(r.name, r.help, append([]string{kind.label}, labels...), nil)
			m.partDescs[k] = append(m.partDescs[k], desc)
		}
	}
	m.mu.places = make(map[key]*place)
	m.mu.series = make(map[key]*series)
	return m
}

func (m *models) watch(source Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.source = source
}

// others counts the models without series of their own in the last scrape.
func (m *models) others() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.mu.others)
}

// omitted counts the parts of a kind without series in the last scrape.
func (m *models) omitted(k int) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.mu.omitted[k])
}

// hold yields the histograms of a model and keeps the decision on it until
// release.
func (m *models) hold(k key) *timing {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.find(k)
	p.held = true
	if p.series.timing == nil {
		p.series.timing = newTiming(p.series.key)
	}
	return p.series.timing
}

// release ends the decision on a model.
func (m *models) release(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.mu.places[k]; p != nil {
		m.remove(k, p)
	}
}

// find decides for a new model. It needs the lock.
func (m *models) find(k key) *place {
	p := m.mu.places[k]
	if p != nil {
		return p
	}
	p = &place{own: m.mu.own < m.limit && k.model != Other && utf8.ValidString(k.model)}
	m.mu.places[k] = p
	if p.own {
		m.mu.own++
	} else {
		k.model = Other
	}
	p.series = m.mu.series[k]
	if p.series == nil {
		p.series = &series{
			key: k, text: label(labelLearner, k.learner) + "," + label(labelModel, k.model),
			values: slices.Repeat([]float64{math.NaN()}, len(m.rows)), // What only grows, until it is known.
		}
		m.mu.series[k] = p.series
	}
	return p
}

// remove needs the lock. Series that are shared stay.
func (m *models) remove(k key, p *place) {
	delete(m.mu.places, k)
	if p.own {
		m.mu.own--
		delete(m.mu.series, k)
	}
}
