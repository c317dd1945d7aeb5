// Package watch sends what a model learns to those who watch it. The model never waits for a watcher: a watcher that
// does not keep up misses observations.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
)

// Limit bounds the watchers of a Hub.
const Limit = 128

// ErrLimit rejects one watcher too many.
var ErrLimit = errors.New("too many streams watch models")

// Hub counts the watchers of an engine.
type Hub struct{ open atomic.Int64 }

// Watcher reports what a model learns while the model learns it. A watcher survives that the model leaves memory or is
// restored. Its methods are for one goroutine.
type Watcher struct {
	hub   *Hub
	set   *Set
	queue *queue
	model *hosted.Model
	// completed is the sequence of the last point of the history that was reported.
	completed uint64
}

// Watch adds a watcher to the watchers of a model. The watcher holds the newest room observations. The caller closes it.
func (h *Hub) Watch(ctx context.Context, m *hosted.Model, set *Set, room int) (*Watcher, error) {
	if n := h.open.Add(1); n > Limit {
		h.open.Add(-1)
		return nil, fmt.Errorf("%w: at most %d streams may watch models at a time", ErrLimit, Limit)
	}
	w := &Watcher{hub: h, set: set, model: m}
	err := m.View(ctx, func(m *machine.Machine) error {
		// During View the model neither learns nor ends, so that the watcher misses nothing.
		w.queue, w.completed = newQueue(room, m.Sequence()), m.Completed()
		set.change(func(all []*queue) []*queue { return append(all, w.queue) })
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
	w.set.change(func(all []*queue) []*queue {
		return slices.DeleteFunc(all, func(q *queue) bool { return q == w.queue })
	})
	w.hub.open.Add(-1)
}

// Changed has a token after an observation, a restore or the end of the model.
func (w *Watcher) Changed() <-chan struct{} { return w.queue.changed }

// Err says why the watch has ended, nil while it has not.
func (w *Watcher) Err() error { return w.queue.err() }

// Next takes the oldest observation held, and is not ok if none is.
func (w *Watcher) Next() (l Learned, ok bool) { return w.queue.next() }

// Points returns the points of the history completed since the last call, or since the watch began. After points have
// become longer, the first one may begin before the end of the last one reported.
func (w *Watcher) Points(ctx context.Context) (points []history.Point, err error) {
	var h *history.History
	after, completed := uint64(0), uint64(0)
	err = w.model.View(ctx, func(m *machine.Machine) error {
		if restored := w.queue.takeRestored(); restored != nil {
			w.completed = min(w.completed, *restored)
		}
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
