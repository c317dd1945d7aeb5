package metrics

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// key is the identity of a model's series.
type key struct{ model, learner string }

// newKey makes a key whose learner can always be a label value.
func newKey(model, learner string) key {
	return key{model: model, learner: strings.ToValidUTF8(learner, "?")}
}

// shared is the key of the series that this model shares when it has none of
// its own.
func (k key) shared() key { return key{model: Other, learner: k.learner} }

// slots decides which models have series of their own. A decision stands
// until the model is forgotten: a model that found no free slot stays among
// the others even when one is freed, so that no series jumps and the timings
// it has resolved stay true.
//
// Its lock is a leaf: nothing is called under it but the histogram vectors.
type slots struct {
	limit int
	mu    struct {
		sync.Mutex
		own   int
		place map[key]*place
	}
}

// place is the decision on one model.
type place struct {
	own bool
	// held says that timings were handed out: only Forget ends it. Otherwise
	// the place lasts as long as the source lists the model.
	held bool
}

func newSlots(limit int) *slots {
	s := &slots{limit: limit}
	s.mu.place = make(map[key]*place)
	return s
}

// owns tells whether the model has series of its own, and decides it for a
// new one.
func (s *slots) owns(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(k).own
}

// hold decides as owns does, keeps the decision until release, and calls use
// with the key of the series before anybody can release it.
func (s *slots) hold(k key, use func(series key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(k)
	p.held = true
	if p.own {
		use(k)
	} else {
		use(k.shared())
	}
}

// release ends the decision on a model, and calls drop if the model had
// series of its own.
func (s *slots) release(k key, drop func(series key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.place[k]
	if p == nil {
		return
	}
	s.remove(k, p)
	if p.own {
		drop(k)
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

// find needs the lock.
func (s *slots) find(k key) *place {
	p := s.mu.place[k]
	if p == nil {
		p = &place{own: s.mu.own < s.limit && k.model != Other && utf8.ValidString(k.model)}
		if p.own {
			s.mu.own++
		}
		s.mu.place[k] = p
	}
	return p
}

// remove needs the lock.
func (s *slots) remove(k key, p *place) {
	delete(s.mu.place, k)
	if p.own {
		s.mu.own--
	}
}
