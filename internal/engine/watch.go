package engine

import (
	"context"
	"fmt"

	"hindsight/internal/engine/account/history"
)

// WatcherLimit bounds the watchers of an engine.
const WatcherLimit = 128

// Watcher tells what a model learns while it learns it. A model that leaves memory
// or goes back to an earlier sequence is watched on. It has to be closed. Its methods
// are for one goroutine.
type Watcher struct {
	instance *instance
	queue    *queue
	// completed is the sequence of the last point of the history that was told.
	completed uint64
}

// Watch begins to watch a model. A watcher that does not keep up holds the newest room
// observations, and leaves out others: the model never waits for it.
func (e *Engine) Watch(ctx context.Context, id string, room int) (*Watcher, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if n := e.watching.Add(1); n > WatcherLimit {
		e.watching.Add(-1)
		return nil, fmt.Errorf("%w: at most %d streams may watch models at a time", ErrWatcherLimit, WatcherLimit)
	}
	if err := i.lockLoaded(ctx); err != nil {
		e.watching.Add(-1)
		return nil, err
	}
	w := &Watcher{instance: i, queue: newQueue(room, i.mu.machine.Sequence()), completed: i.mu.machine.Completed()}
	i.watchers.add(w.queue)
	i.mu.RUnlock() // From here on a model that is deleted tells the watcher.
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.instance.watchers.remove(w.queue)
	w.instance.watching.Add(-1)
}

// Changed has a token once there is something new: an observation, another state, or an
// end.
func (w *Watcher) Changed() <-chan struct{} { return w.queue.changed }

// Err says why nothing more will come, nil while something may.
func (w *Watcher) Err() error { return w.queue.err() }

// Next is the oldest observation that is held, and not ok if there is none.
func (w *Watcher) Next() (l Learned, ok bool) { return w.queue.next() }

// Statistics tells how the model is doing, without what has to be solved for: that is
// NaN or absent. The digest is 0. It costs O(r).
func (w *Watcher) Statistics(ctx context.Context) (Stats, error) {
	i := w.instance
	if err := i.lockLoaded(ctx); err != nil {
		return Stats{}, err
	}
	defer i.mu.RUnlock()
	m := i.mu.machine
	stats, err := m.Stats()
	if err != nil {
		return Stats{}, i.errorf("read the statistics", err)
	}
	f := figuresNow(m, stats)
	return i.statistics(m.Sequence(), &f, m.Intervals()), nil
}

// Points are the points of the history that are complete since the last call, or
// since the watch began. When points have become longer, the first one may begin before
// the last one ended.
func (w *Watcher) Points(ctx context.Context) ([]history.Point, error) {
	i := w.instance
	if err := i.lockLoaded(ctx); err != nil {
		return nil, err
	}
	completed := i.mu.machine.Completed()
	if back := w.queue.wentBack(); back != nil {
		w.completed = min(w.completed, *back)
	}
	if completed <= w.completed {
		i.mu.RUnlock()
		return nil, nil
	}
	h := i.mu.machine.History()
	i.mu.RUnlock()
	points := h.Points(w.completed, nil)
	w.completed = completed
	return points, nil
}
