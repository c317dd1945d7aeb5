package watch

import (
	"slices"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/record"
)

// Learned is an observation that the model has learned, as a watcher reports it.
type Learned struct {
	record.Answer
	// Features, or the bytes of named Inputs, are the input: see record.Observation.
	Features []float64
	Inputs   []byte
	// Labels and Class are what was observed.
	Labels []float64
	Class  string
	// Notes has the notes of the served prediction: see account.Interval. It is nil if nothing was served.
	Notes []float64
	// Time is when the observation became durable, in nanoseconds since 1970.
	Time int64
	// Omitted counts the observations left out since the previous one reported.
	Omitted uint64
}

// Set holds the watchers of one model. The model's turn reports to them; watchers come and go at any time.
type Set struct {
	// all is nil while nobody watches. A slice stored here is never changed.
	all atomic.Pointer[[]*Watcher]
	// changing is held while all is replaced.
	changing sync.Mutex
}

func (s *Set) change(edit func([]*Watcher) []*Watcher) {
	s.changing.Lock()
	defer s.changing.Unlock()
	var watchers []*Watcher
	if all := s.all.Load(); all != nil {
		watchers = slices.Clone(*all)
	}
	if watchers = edit(watchers); len(watchers) == 0 {
		s.all.Store(nil)
		return
	}
	s.all.Store(&watchers)
}

// each calls f with each watcher, whose lock is held, and signals it. It costs one atomic load while nobody watches.
func (s *Set) each(f func(*Watcher)) {
	all := s.all.Load()
	if all == nil {
		return
	}
	for _, w := range *all {
		w.mu.Lock()
		f(w)
		w.mu.Unlock()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// Learned reports the observations of a record.
func (s *Set) Learned(r *record.Record, answers []record.Answer) {
	s.each(func(w *Watcher) { w.take(r, answers) })
}

// Restored reports that the model was restored to a sequence.
func (s *Set) Restored(sequence uint64) {
	s.each(func(w *Watcher) { w.mu.held, w.mu.reported, w.mu.restored = nil, sequence, &sequence })
}

// End reports why no more will come.
func (s *Set) End(why error) { s.each(func(w *Watcher) { w.mu.ended = why }) }
