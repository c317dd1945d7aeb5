package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/record"
)

// Learned is an observation that was learned, as a watcher is told it.
type Learned struct {
	Answer
	// Labels and Class are what was observed.
	Labels []float64
	Class  string
	// Time is when it became durable, in nanoseconds since 1970.
	Time int64
	// Omitted is how many were learned and not told since the one before.
	Omitted uint64
}

// watchers are those of one model. The model's turn tells them. They come and go at any
// time.
type watchers struct {
	// all is nil while nobody watches. A slice in it is never changed.
	all atomic.Pointer[[]*queue]
	// changing is held while all is replaced.
	changing sync.Mutex
}

// change replaces the watchers.
func (w *watchers) change(to func([]*queue) []*queue) {
	w.changing.Lock()
	defer w.changing.Unlock()
	var now []*queue
	if all := w.all.Load(); all != nil {
		now = *all
	}
	if now = to(slices.Clone(now)); len(now) == 0 {
		w.all.Store(nil)
		return
	}
	w.all.Store(&now)
}

func (w *watchers) add(q *queue) {
	w.change(func(all []*queue) []*queue { return append(all, q) })
}

func (w *watchers) remove(q *queue) {
	w.change(func(all []*queue) []*queue {
		return slices.DeleteFunc(all, func(other *queue) bool { return other == q })
	})
}

// each calls f for every watcher. It costs a load while there is none.
func (w *watchers) each(f func(*queue)) {
	all := w.all.Load()
	if all == nil {
		return
	}
	for _, q := range *all {
		f(q)
	}
}

// tell tells the watchers what a record brought. It runs at the model's turn.
func (w *watchers) tell(r *record.Record, answers []Answer) {
	if w.all.Load() != nil {
		w.each(func(q *queue) { q.take(r, answers) })
	}
}

// queue holds what one watcher is to be told: the newest observations, as many as it has
// room for. Others are left out. Nobody waits for it.
type queue struct {
	mu struct {
		sync.Mutex
		ring []Learned
		// The oldest one is at first, held is how many there are.
		first, held int
		// told is the sequence of the last one that was told or passed over.
		told uint64
		// back is the sequence that the model went back to, nil once that is known.
		back  *uint64
		ended error
	}
	// changed has a token once there is something new.
	changed chan struct{}
}

// newQueue holds up to room observations after a sequence.
func newQueue(room int, sequence uint64) *queue {
	q := &queue{changed: make(chan struct{}, 1)}
	q.mu.ring, q.mu.told = make([]Learned, room), sequence
	return q
}

func (q *queue) signal() {
	select {
	case q.changed <- struct{}{}:
	default: // Signalled already.
	}
}

// take takes the observations of a record. Its cost is bounded by the room.
func (q *queue) take(r *record.Record, answers []Answer) {
	q.mu.Lock()
	room := len(q.mu.ring)
	for n := max(0, len(answers)-room); n < len(answers); n++ {
		if q.mu.held == room {
			q.mu.first = (q.mu.first + 1) % room
			q.mu.held--
		}
		o := &r.Observations[n]
		q.mu.ring[(q.mu.first+q.mu.held)%room] = Learned{Answer: answers[n], Labels: o.Labels, Class: o.Class, Time: r.Time}
		q.mu.held++
	}
	q.mu.Unlock()
	q.signal()
}

// next is the oldest observation that is held.
func (q *queue) next() (l Learned, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.mu.held > 0 {
		at := q.mu.first
		l, q.mu.ring[at] = q.mu.ring[at], Learned{}
		q.mu.first = (at + 1) % len(q.mu.ring)
		q.mu.held--
		if l.Sequence > q.mu.told { // Else it was learned before the watcher came.
			l.Omitted = l.Sequence - q.mu.told - 1
			q.mu.told = l.Sequence
			return l, true
		}
	}
	return Learned{}, false
}

// goBack follows a model that went back to a sequence.
func (q *queue) goBack(sequence uint64) {
	q.mu.Lock()
	clear(q.mu.ring)
	q.mu.held, q.mu.told, q.mu.back = 0, sequence, &sequence
	q.mu.Unlock()
	q.signal()
}

// wentBack is the sequence that the model went back to since the last call, nil if it did
// not.
func (q *queue) wentBack() *uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	back := q.mu.back
	q.mu.back = nil
	return back
}

// end says why nothing more will come.
func (q *queue) end(why error) {
	q.mu.Lock()
	q.mu.ended = why
	q.mu.Unlock()
	q.signal()
}

func (q *queue) err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.ended
}
