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
	all atomic.Pointer[[]*queue]
	// changing is held while all is replaced.
	changing sync.Mutex
}

func (s *Set) change(edit func([]*queue) []*queue) {
	s.changing.Lock()
	defer s.changing.Unlock()
	var queues []*queue
	if all := s.all.Load(); all != nil {
		queues = slices.Clone(*all)
	}
	if queues = edit(queues); len(queues) == 0 {
		s.all.Store(nil)
		return
	}
	s.all.Store(&queues)
}

// each costs one atomic load while nobody watches.
func (s *Set) each(f func(*queue)) {
	if all := s.all.Load(); all != nil {
		for _, q := range *all {
			f(q)
		}
	}
}

// Learned reports the observations of a record.
func (s *Set) Learned(r *record.Record, answers []record.Answer) {
	s.each(func(q *queue) { q.take(r, answers) })
}

// Restored reports that the model was restored to a sequence.
func (s *Set) Restored(sequence uint64) { s.each(func(q *queue) { q.restore(sequence) }) }

// End reports why no more will come.
func (s *Set) End(why error) { s.each(func(q *queue) { q.end(why) }) }

// queue holds the newest observations that one watcher has not taken yet. Nobody waits for it.
type queue struct {
	mu struct {
		sync.Mutex
		// len(held) <= room
		held []Learned
		// reported is the sequence of the last observation taken, or passed over by a restore.
		reported uint64
		// restored is the sequence of a restore that Points does not know of, else nil.
		restored *uint64
		ended    error
	}
	room int // immutable
	// changed has a token after something new.
	changed chan struct{}
}

// newQueue holds up to room observations after a sequence.
func newQueue(room int, sequence uint64) *queue {
	q := &queue{room: room, changed: make(chan struct{}, 1)}
	q.mu.reported = sequence
	return q
}

func (q *queue) signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take holds the observations of a record. It costs O(room) at most.
func (q *queue) take(r *record.Record, answers []record.Answer) {
	q.mu.Lock()
	more := min(len(answers), q.room)
	q.mu.held = slices.Delete(q.mu.held, 0, max(0, len(q.mu.held)+more-q.room))
	for n := len(answers) - more; n < len(answers); n++ {
		o := &r.Observations[n]
		l := Learned{Answer: answers[n], Features: o.Features, Inputs: o.Inputs, Labels: o.Labels, Class: o.Class, Time: r.Time}
		if o.Served != nil {
			l.Notes = o.Served.Notes
		}
		q.mu.held = append(q.mu.held, l)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue) next() (l Learned, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.mu.held) > 0 {
		l, q.mu.held[0] = q.mu.held[0], Learned{}
		q.mu.held = q.mu.held[1:]
		if l.Sequence > q.mu.reported { // Else the model learned it before the watch began.
			l.Omitted = l.Sequence - q.mu.reported - 1
			q.mu.reported = l.Sequence
			return l, true
		}
	}
	return Learned{}, false
}

func (q *queue) restore(sequence uint64) {
	q.mu.Lock()
	q.mu.held, q.mu.reported, q.mu.restored = nil, sequence, &sequence
	q.mu.Unlock()
	q.signal()
}

// takeRestored returns the sequence of a restore since the last call, nil if there was none.
func (q *queue) takeRestored() *uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	restored := q.mu.restored
	q.mu.restored = nil
	return restored
}

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
