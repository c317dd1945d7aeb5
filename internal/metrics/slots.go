package metrics

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// key is the identity of a model.
type key struct{ model, learner string }

// newKey makes a key whose learner can always be a label value.
func newKey(model, learner string) key {
	return key{model: model, learner: strings.ToValidUTF8(learner, "?")}
}

// series is one set of labels: that of a model, or that which the others of a
// learner share.
type series struct {
	key
	text string // The labels as the text format writes them, sorted by name.
}

// slots decides which models have series of their own. A decision stands until
// the model is forgotten. A model that found no free slot stays among the
// others when one is freed: its series keep their labels, and the Timings that
// it holds stay true.
//
// The lock is a leaf: only the histogram vectors are called under it.
type slots struct {
	limit  int
	escape *strings.Replacer
	vecs   [timed]*prometheus.HistogramVec
	limits *[bounds]float64 // of the classic buckets
	mu     struct {
		sync.Mutex
		own    int
		place  map[key]*place
		series map[*series]*timing // nil before the first Timings
		shared map[string]*series  // by learner
	}
}

// place is the decision on one model.
type place struct {
	series *series
	own    bool
	// held says that Timings were handed out: only Forget ends the decision.
	// Otherwise it lasts as long as the source lists the model.
	held bool
}

func newSlots(limit int) *slots {
	s := &slots{limit: limit, limits: timingBuckets(), escape: strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)}
	for i, r := range timingRows() {
		s.vecs[i] = newTimingVec(r)
	}
	s.mu.place = make(map[key]*place)
	s.mu.series = make(map[*series]*timing)
	s.mu.shared = make(map[string]*series)
	return s
}

// find decides for a new model. It yields the series of the model, and whether
// they are its own.
func (s *slots) find(k key) (of *series, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.findLocked(k)
	return p.series, p.own
}

// hold decides as find does, and keeps the decision until release.
func (s *slots) hold(k key) *timing {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.findLocked(k)
	p.held = true
	t := s.mu.series[p.series]
	if t == nil {
		t = newTiming(s.vecs, s.limits, p.series.key)
		s.mu.series[p.series] = t
	}
	return t
}

// release ends the decision on a model.
func (s *slots) release(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.mu.place[k]; p != nil {
		s.remove(k, p)
	}
}

// sweep ends the decisions on models that are gone without having been held.
func (s *slots) sweep(listed map[key]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, p := range s.mu.place {
		if _, ok := listed[k]; !ok && !p.held {
			s.remove(k, p)
		}
	}
}

// samples yields a sample without values for each series, in no order.
func (s *slots) samples() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]sample, 0, len(s.mu.series))
	for of, t := range s.mu.series {
		all = append(all, sample{series: of, timing: t})
	}
	return all
}

func (s *slots) findLocked(k key) *place {
	p := s.mu.place[k]
	if p != nil {
		return p
	}
	p = &place{own: s.mu.own < s.limit && k.model != Other && utf8.ValidString(k.model)}
	s.mu.place[k] = p
	if p.own {
		s.mu.own++
		p.series = s.newSeries(k)
		return p
	}
	shared := s.mu.shared[k.learner]
	if shared == nil {
		shared = s.newSeries(key{model: Other, learner: k.learner})
		s.mu.shared[k.learner] = shared
	}
	p.series = shared
	return p
}

// newSeries needs the lock.
func (s *slots) newSeries(k key) *series {
	of := &series{key: k, text: labelLearner + `="` + s.escape.Replace(k.learner) + `",` + labelModel + `="` + s.escape.Replace(k.model) + `"`}
	s.mu.series[of] = nil
	return of
}

// remove needs the lock. Series that are shared stay.
func (s *slots) remove(k key, p *place) {
	delete(s.mu.place, k)
	if !p.own {
		return
	}
	s.mu.own--
	delete(s.mu.series, p.series)
	for _, vec := range s.vecs {
		vec.DeleteLabelValues(k.model, k.learner)
	}
}
