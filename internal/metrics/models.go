package metrics

import (
	"cmp"
	"math"
	"slices"
	"time"

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
	// PendingLabels counts the predictions that wait for their label, of at most
	// PendingLimit.
	PendingLabels uint64
	PendingLimit  int64
	// ExpiredLabels counts the predictions whose label did not come in time.
	ExpiredLabels uint64
	// Duplicates counts the observations that came again under their id, Conflicts
	// those that were refused since their id stands for another one.
	Duplicates, Conflicts uint64
	// Queued is how many observations wait for the model's turn.
	Queued int
	// Dictionary is the number of centres, 0 for a learner without any.
	Dictionary int
	// Behind is how many observations of the model that it follows it has not
	// learned, NaN if it follows none.
	Behind float64
	// SnapshotTime is when the newest snapshot was made, or when the server took
	// the model up. SnapshotBytes is its size, 0 if that is not known.
	// Unsnapshotted counts the observations that it does not have, and
	// ReplaySeconds is about what it would take to learn them again.
	SnapshotTime  time.Time
	SnapshotBytes int64
	Unsnapshotted uint64
	ReplaySeconds float64
	// ReadOnly says that the model no longer learns.
	ReadOnly bool
	// Drift is what is known of changes in the loss.
	Drift Drift
	// Gate is what the label gate did.
	Gate Gate
	// Intervals are the levels at which the model gives intervals, one entry
	// each. They are read during the yield only, as the next two.
	Intervals []Interval
	// Inputs are the named inputs, in an order that is always the same.
	Inputs []Input
	// Classifier is how a classifier does, nil for other models.
	Classifier *Classifier
}

// largestShift is that of all inputs whose shift is known.
func (m *Model) largestShift() float64 {
	v := math.NaN()
	for i := range m.Inputs {
		v = most.join(v, m.Inputs[i].Shift)
	}
	return v
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

// Gate is what a label gate did.
type Gate struct {
	// On says that the model has one. Without it the rest is not shown.
	On bool
	// SetAside counts the observations that were set aside, Starts how often the learner
	// started anew.
	SetAside, Starts uint64
}

func (g *Gate) known(count uint64) float64 { return known(g.On, float64(count)) }

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

// Input is what has been seen of a named input.
type Input struct {
	Name string
	// Seen and Missing count the observed records with and without a value,
	// Outside the values that lay outside of what had been learned.
	Seen, Missing, Outside uint64
	// Mean and Deviation are those of the values, Shift is the population
	// stability index.
	Mean, Deviation, Shift float64
}

// Bins is the number of bins of the reliability table.
const Bins = 10

// Classifier is how a classifier does.
type Classifier struct {
	// Prequential are of the predictions made just before each observation was
	// learned, Served of those that the caller was given.
	Prequential, Served ClassFigures
	// Recent is the performance over the last thousand observations.
	Recent RecentClasses
	// Reliability is what became of the probabilities from i/10 to (i+1)/10.
	Reliability [Bins]Bin
	// Classes are in the order of their first appearance.
	Classes []Class
}

// ClassFigures are sums over the predictions of some observations and, over the same
// ones, of two predictors that ignore the inputs.
type ClassFigures struct {
	Errors, LogLoss, Brier float64
	// MajorityErrors are those of the class that was most frequent before,
	// LastErrors those of the class of the observation before.
	MajorityErrors, LastErrors float64
	// Skill is 1 less the errors divided by those of the better baseline, NaN while
	// that has none.
	Skill float64
}

// RecentClasses is the performance over the last observations: of what the caller
// was given, or of the prequential prediction where it was given nothing.
type RecentClasses struct {
	// Observations is how many these are. Below a thousand the rest is not shown.
	Observations uint64
	// ErrorRate is the share of errors, Skill 1 less that divided by the rate of the
	// better baseline.
	ErrorRate, Skill float64
}

// Bin is a bin of the reliability table.
type Bin struct {
	// Members counts the probabilities, Found those whose class was observed.
	// Expected is the sum of the probabilities.
	Members, Found uint64
	Expected       float64
}

// Class is what became of one class.
type Class struct {
	Name string
	// Observed counts its observations, Errors those of them for which another
	// class was predicted, Predicted how often it was predicted.
	Observed, Errors, Predicted uint64
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
	m.mu.others, m.mu.omitted = 0, [kindsOfParts]int{}
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
		s.values = slices.Clone(s.values)
		s.beginParts(&m.kinds)
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
	m.addParts(s, p.own)
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
		s.before, s.room = nil, nil
		shown := sample{key: s.key, text: s.text, timing: s.timing}
		if s.seen == m.mu.scrapes {
			shown.values, shown.parts = s.values, s.parts
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
