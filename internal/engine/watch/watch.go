// Package watch sends what a model learns to those who watch it. The model never waits for a watcher: a watcher that
// does not keep up misses observations.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
)

// Limit bounds the watchers of a Hub.
const Limit = 128

// ErrLimit rejects one watcher too many.
var ErrLimit = errors.New("too many streams watch models")

// Hub counts the watchers of an engine.
type Hub struct{ open atomic.Int64 }

// Watcher reports what a model learns while the model learns it, and holds the newest observations that its caller has
// not taken yet. A watcher survives that the model leaves memory or is restored. One goroutine calls its exported methods.
type Watcher struct {
	hub   *Hub
	set   *Set
	model *hosted.Model
	room  int
	// changed has a token after something new.
	changed chan struct{}
	// completed is the sequence of the last point of the history that was reported.
	completed uint64
	mu        struct {
		sync.Mutex
		// len(held) <= room
		held []Learned
		// reported is the sequence of the last observation taken, or passed over by a restore.
		reported uint64
		// restored is the sequence of a restore that Points does not know of, else nil.
		restored *uint64
		ended    error
	}
}

// Watch adds a watcher to the watchers of a model. The watcher holds the newest room observations. The caller closes it.
func (h *Hub) Watch(ctx context.Context, m *hosted.Model, set *Set, room int) (*Watcher, error) {
	if n := h.open.Add(1); n > Limit {
		h.open.Add(-1)
		return nil, fmt.Errorf("%w: at most %d streams may watch models at a time", ErrLimit, Limit)
	}
	w := &Watcher{hub: h, set: set, model: m, room: room, changed: make(chan struct{}, 1)}
	err := m.View(ctx, func(m *machine.Machine) error {
		// During View the model neither learns nor ends, so that the watcher misses nothing.
		w.mu.reported, w.completed = m.Sequence(), m.Completed()
		set.change(func(all []*Watcher) []*Watcher { return append(all, w) })
		return nil
	})
	if err != nil {
		h.open.Add(-1)
		return nil, err
	}
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.set.change(func(all []*Watcher) []*Watcher {
		return slices.DeleteFunc(all, func(other *Watcher) bool { return other == w })
	})
	w.hub.open.Add(-1)
}

// Changed has a token after an observation, a restore or the end of the model.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Err says why the watch has ended, nil while it has not.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.ended
}

// Next takes the oldest observation held, and is not ok if none is.
func (w *Watcher) Next() (l Learned, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.held) > 0 {
		l, w.mu.held[0] = w.mu.held[0], Learned{}
		w.mu.held = w.mu.held[1:]
		if l.Sequence > w.mu.reported { // Else the model learned it before the watch began.
			l.Omitted = l.Sequence - w.mu.reported - 1
			w.mu.reported = l.Sequence
			return l, true
		}
	}
	return Learned{}, false
}

// Points returns the points of the history completed since the last call, or since the watch began. After points have
// become longer, the first one may begin before the end of the last one reported.
func (w *Watcher) Points(ctx context.Context) (points []history.Point, err error) {
	var h *history.History
	after, completed := uint64(0), uint64(0)
	err = w.model.View(ctx, func(m *machine.Machine) error {
		w.mu.Lock()
		if restored := w.mu.restored; restored != nil {
			w.completed, w.mu.restored = min(w.completed, *restored), nil
		}
		w.mu.Unlock()
		after, completed = w.completed, m.Completed()
		if completed > after {
			h = m.History()
		}
		return nil
	})
	if err != nil || h == nil {
		return nil, err
	}
	w.completed = completed
	return h.Points(after, nil), nil
}

// take holds the observations of a record. It costs O(room) at most.
func (w *Watcher) take(r *record.Record, answers []record.Answer) {
	more := min(len(answers), w.room)
	w.mu.held = slices.Delete(w.mu.held, 0, max(0, len(w.mu.held)+more-w.room))
	for n := len(answers) - more; n < len(answers); n++ {
		o := &r.Observations[n]
		l := Learned{Answer: answers[n], Features: o.Features, Inputs: o.Inputs, Labels: o.Labels, Class: o.Class, Time: r.Time}
		if o.Served != nil {
			l.Notes = o.Served.Notes
		}
		w.mu.held = append(w.mu.held, l)
	}
}
