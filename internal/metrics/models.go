package metrics

import (
	"cmp"
	"math"
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
	// ServedLoss is the loss of the predictions that the caller was given,
	// ServedObservations counts the observations that it is the loss of.
	ServedLoss         float64
	ServedObservations uint64
	// PrequentialBaselines are over the observations of PrequentialLoss,
	// ServedBaselines over those of ServedLoss, each predicted at the moment at
	// which the model predicted.
	PrequentialBaselines, ServedBaselines Baselines
	// PrequentialSkill and ServedSkill are 1 less the loss divided by that of
	// the better baseline, NaN while that is 0.
	PrequentialSkill, ServedSkill float64
	// Recent is the performance over the last thousand observations.
	Recent Recent
	// Regret is PrequentialLoss less the loss of the best fixed function in
	// hindsight.
	Regret float64
	// RegretAge counts the observations learned since Regret was solved. It is
	// 0 for a learner that tracks its regret in each round.
	RegretAge uint64
	// ServedRegret is Regret with the served predictions in the place of the
	// prequential ones.
	ServedRegret float64
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
	// Drift is what is known of changes in the loss.
	Drift Drift
	// Intervals are the levels at which the model gives intervals, one entry
	// each. They are read during the yield only.
	Intervals []Interval
}

// Baselines are sums of losses, in the model's own loss and with the weights of
// the observations, of predictors that ignore the inputs.
type Baselines struct {
	// Mean is the loss of the running mean of the labels, Last that of the last
	// label.
	Mean, Last float64
}

// Recent is the performance over the last observations: of what the caller was
// given, or of the prequential prediction where it was given nothing.
type Recent struct {
	// Observations is how many these are. Below a thousand the rest is not shown.
	Observations uint64
	// MeanLoss is the mean loss, Skill 1 less that divided by the mean loss of the
	// better baseline.
	MeanLoss, Skill float64
}

func (r *Recent) known(v float64) float64 {
	if r.Observations < recent {
		return math.NaN()
	}
	return v
}

// Drift is what is known of changes in the loss.
type Drift struct {
	// Detected counts the changes, Rises those at which the loss rose. While
	// Detected is 0 the rest is not shown.
	Detected, Rises uint64
	// Sequence is where the last change is thought to have happened.
	Sequence uint64
	// LossBefore is the mean loss before it, LossAfter that after it.
	LossBefore, LossAfter float64
}

func (d *Drift) known(v float64) float64 {
	if d.Detected == 0 {
		return math.NaN()
	}
	return v
}

// Interval is how the intervals of one level did: the mean over the outputs of
// a model with several.
type Interval struct {
	// Coverage is the level: the share of labels that are to lie inside.
	Coverage float64
	// Judged counts the intervals whose label came, of one output.
	Judged uint64
	// Realised is the share of labels that lay inside, Recent the same over the
	// last thousand. Recent is not shown before there were so many.
	Realised, Recent float64
	// MeanWidth is the mean width, MeanScore the mean interval score.
	MeanWidth, MeanScore float64
}

// sample is one series of a scrape. It does not change afterwards, except for
// the durations that its timing takes.
type sample struct {
	key
	text   string
	values []float64 // of each row; nil if the source lists no model of the series
	levels []level
	timing *timing // nil before the first Timings
}

// maxLevels bounds the levels of a series. It matters to the series that models
// share, since each of them may have levels of its own.
const maxLevels = 10

// level has the values of the interval rows at one level.
type level struct {
	coverage float64
	values   [leveled]float64
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
	if s.seen != m.mu.scrapes {
		s.seen = m.mu.scrapes
		// The last scrape may still be printed.
		s.values = append(make([]float64, 0, len(m.rows)), s.values...)[:len(m.rows)]
		s.levels = make([]level, 0, len(live.Intervals))
		for i, r := range m.rows {
			if r.together != growth {
				s.values[i] = r.together.start()
			}
		}
	}
	// The functions of the rows get a pointer, and one to live itself would
	// allocate.
	m.mu.live = live
	if p.own {
		for i, r := range m.rows {
			s.values[i] = r.value(&m.mu.live)
		}
	} else {
		m.mu.others++
		m.join(p)
	}
	m.addLevels(s, p.own)
	m.mu.live = Model{}
}

// join takes mu.live into the values of the series that it shares.
func (m *models) join(p *place) {
	if p.last == nil {
		p.last = make([]float64, m.growing)
	}
	values, last := p.series.values, p.last
	for i, r := range m.rows {
		v := r.value(&m.mu.live)
		if r.together != growth {
			values[i] = r.together.join(values[i], v)
			continue
		}
		// A number that is not known has not grown, nor has that of a model that
		// was set back to an earlier state.
		if finite(v) {
			values[i] += max(v-last[0], 0)
			last[0] = v
		}
		last = last[1:]
	}
}

// addLevels takes the intervals of mu.live into the levels of a series. What is
// not the first of its level, or at no level, is left out.
func (m *models) addLevels(s *series, own bool) {
	for i, in := range m.mu.live.Intervals {
		same := func(other Interval) bool { return other.Coverage == in.Coverage }
		if !finite(in.Coverage) || slices.ContainsFunc(m.mu.live.Intervals[:i], same) {
			continue
		}
		at := slices.IndexFunc(s.levels, func(l level) bool { return l.coverage == in.Coverage })
		if at < 0 && len(s.levels) == maxLevels {
			continue
		}
		if at < 0 {
			at = len(s.levels)
			l := level{coverage: in.Coverage}
			for j, r := range m.intervalRows {
				l.values[j] = r.together.start()
			}
			s.levels = append(s.levels, l)
		}
		for j, r := range m.intervalRows {
			if v := r.value(in); own {
				s.levels[at].values[j] = v
			} else {
				s.levels[at].values[j] = r.together.join(s.levels[at].values[j], v)
			}
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
			shown.values, shown.levels = s.values, s.levels
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
	for _, d := range m.intervalDescs {
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
			if finite(v) {
				ch <- prometheus.MustNewConstMetric(m.descs[i], m.rows[i].kind, v, s.model, s.learner)
			}
		}
		for _, l := range s.levels {
			coverage := string(appendNumber(nil, l.coverage))
			for i, v := range l.values {
				if finite(v) {
					ch <- prometheus.MustNewConstMetric(m.intervalDescs[i], m.intervalRows[i].kind, v, coverage, s.model, s.learner)
				}
			}
		}
		if s.timing != nil {
			for _, h := range s.timing {
				ch <- h
			}
		}
	}
}
