package metrics

// totals are the numbers of a model that only grow.
type totals struct {
	observations, predictions, expired uint64
	prequential, served                float64
}

// others sums the models that have no series of their own, by learner. What
// may rise and fall is the sum over the models that are there. What only
// grows must not fall when one of them is deleted, or rate() would take that
// for a restart and count everything again; so growth is summed, from scrape
// to scrape.
type others struct {
	last    map[key]totals     // of each model, at the last scrape
	grown   map[string]*totals // by learner, since the start
	present map[string]*Model  // by learner, of this scrape
}

func newOthers() others {
	return others{
		last:    make(map[key]totals),
		grown:   make(map[string]*totals),
		present: make(map[string]*Model),
	}
}

// begin starts a scrape.
func (o *others) begin() { clear(o.present) }

// add takes one model of the scrape.
func (o *others) add(k key, m Model) {
	sum := o.present[k.learner]
	if sum == nil {
		sum = &Model{Name: Other, Learner: k.learner, CertificateOK: true}
		o.present[k.learner] = sum
	}
	// One unknown regret leaves its series out: the regret of the rest beside
	// the bound of all would look better than it is.
	sum.Regret += m.Regret
	sum.RegretBound += m.RegretBound
	sum.CertificateOK = sum.CertificateOK && m.CertificateOK
	sum.Features += m.Features
	sum.StateBytes += m.StateBytes
	sum.PendingLabels += m.PendingLabels
	sum.ReadOnly = sum.ReadOnly || m.ReadOnly

	grown := o.grown[k.learner]
	if grown == nil {
		grown = new(totals)
		o.grown[k.learner] = grown
	}
	o.last[k] = grown.add(o.last[k], m)
}

// add adds what a model has grown since last, and tells where it stands now.
// A model that was set back to an earlier state has not grown.
func (t *totals) add(last totals, m Model) totals {
	t.observations += m.Observations - min(m.Observations, last.observations)
	t.predictions += m.Predictions - min(m.Predictions, last.predictions)
	t.expired += m.ExpiredLabels - min(m.ExpiredLabels, last.expired)
	now := totals{m.Observations, m.Predictions, m.ExpiredLabels, last.prequential, last.served}
	if finite(m.PrequentialLoss) {
		t.prequential += max(m.PrequentialLoss-last.prequential, 0)
		now.prequential = m.PrequentialLoss
	}
	if finite(m.ServedLoss) {
		t.served += max(m.ServedLoss-last.served, 0)
		now.served = m.ServedLoss
	}
	return now
}

// end ends a scrape that listed these models: it drops what is gone.
func (o *others) end(listed map[key]struct{}) {
	for k := range o.last {
		if _, ok := listed[k]; !ok {
			delete(o.last, k)
		}
	}
}

// sum is what the others of one learner show together.
func (o *others) sum(learner string) Model {
	m, t := *o.present[learner], *o.grown[learner]
	m.Observations, m.Predictions, m.ExpiredLabels = t.observations, t.predictions, t.expired
	m.PrequentialLoss, m.ServedLoss = t.prequential, t.served
	return m
}
