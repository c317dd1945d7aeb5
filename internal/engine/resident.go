package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// load is a model's way into memory, waited for by whoever needs it.
type load struct {
	done chan struct{}
	err  error
}

// lockLoaded takes the read lock of a model that is in memory, loading it
// first when it is not.
func (i *instance) lockLoaded(ctx context.Context) error {
	for {
		i.mu.RLock()
		if i.mu.learner != nil {
			return nil
		}
		i.mu.RUnlock()
		if err := i.ready(ctx); err != nil {
			return err
		}
		// It may have been let go again in between.
	}
}

// ready waits until the model is in memory. It gives up with the context; the
// load goes on all the same.
func (i *instance) ready(ctx context.Context) error {
	for {
		l := i.beginLoad()
		if l == nil {
			return nil
		}
		select {
		case <-l.done:
			if l.err != nil {
				return l.err
			}
		case <-ctx.Done():
			return fmt.Errorf("engine: wait for model %q to be loaded: %w", i.id, context.Cause(ctx))
		}
	}
}

// holdLoads waits for a load that is on its way and lets none begin until the
// hold is let go: what is loaded is to change. A hold is let go with the state
// that takes the place of what was there, or with nil to leave all as it was.
func (i *instance) holdLoads() (release func(*state)) {
	hold := &load{done: make(chan struct{})}
	var before *load
	for {
		i.mu.Lock()
		before = i.mu.loading
		if before == nil || before.ended() {
			i.mu.loading = hold
			i.mu.Unlock()
			break
		}
		i.mu.Unlock()
		<-before.done
	}
	return func(s *state) {
		defer close(hold.done)
		i.mu.Lock()
		defer i.mu.Unlock()
		if s == nil {
			i.mu.loading = before
			return
		}
		i.mu.state, i.mu.loaded, i.mu.broken, i.mu.loading = *s, true, nil, nil
	}
}

// ended tells whether the load is over, which only one that failed for good is
// while it is still known.
func (l *load) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// beginLoad gives the load that is on its way, begun now if there is none. It
// is nil when the model is in memory. What a corrupt model is refused with
// stays; a disk that could not be read is tried again.
func (i *instance) beginLoad() *load {
	i.mu.RLock()
	there := i.mu.learner != nil
	i.mu.RUnlock()
	if there {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.mu.learner != nil:
		return nil
	case i.mu.loading != nil:
		return i.mu.loading
	}
	l := &load{done: make(chan struct{})}
	if i.mu.gone != nil {
		l.err = i.mu.gone
		close(l.done)
		return l
	}
	i.mu.loading = l
	i.engine.loads.Add(1)
	go func() {
		defer i.engine.loads.Done()
		defer close(l.done)
		l.err = i.load(l)
	}()
	return l
}

// load recovers the state, and puts it into memory.
func (i *instance) load(l *load) error {
	e := i.engine
	select {
	case e.loading <- struct{}{}:
		defer func() { <-e.loading }()
	case <-e.lifetime.Done():
		i.failLoad(l, ErrClosed)
		return ErrClosed
	}
	started := e.o.Now()
	s, err := i.recover(e.lifetime)
	if err != nil {
		err = fmt.Errorf("engine: recover model %q: %w", i.id, err)
		if e.lifetime.Err() != nil {
			err = ErrClosed
		} else {
			e.o.Log.Error("model cannot be recovered", zap.String("model", i.id), zap.Error(err))
		}
		i.failLoad(l, err)
		return err
	}
	i.mu.Lock()
	i.mu.state, i.mu.loading, i.mu.loaded = s, nil, true
	i.mu.Unlock()
	i.measure()
	i.used.Store(started.UnixNano())
	took := e.o.Now().Sub(started)
	e.wakes.Add(1)
	e.wakeNanoseconds.Add(int64(took))
	e.o.Log.Debug("model loaded", zap.String("model", i.id), zap.Uint64("sequence", s.sequence), zap.Duration("took", took))
	e.relieve()
	return nil
}

// failLoad forgets a load that failed, so that it is tried again; unless what
// is stored is corrupt, which trying again does not change.
func (i *instance) failLoad(l *load, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.loading = nil
	if errors.Is(err, ErrCorrupt) {
		i.mu.loading, i.mu.broken = l, err
	}
}

// measure brings the engine's sum of state sizes up to date.
func (i *instance) measure() {
	i.mu.RLock()
	size := int64(0)
	if i.mu.learner != nil {
		size = int64(i.mu.learner.Stats().StateBytes) + instanceBytes
	}
	i.mu.RUnlock()
	i.engine.resident.Add(size - i.bytes.Swap(size))
}

const (
	// A model in memory takes instanceBytes beside its state.
	instanceBytes = 2048
	// A model at most replayLimit observations ahead of its newest snapshot is
	// let go without another: they are replayed when it is needed again, each
	// in microseconds.
	replayLimit = 256
	// After a start, prefetched models are loaded before anybody asks: as many
	// as have series of their own.
	prefetched = 1000
)

// prefetch loads the first models in the background, as long as there is
// room, so that their statistics are there and what cannot be recovered is
// told soon.
func (e *Engine) prefetch(models []*instance) {
	started := e.o.Now()
	tried := 0
	for _, i := range models[:min(len(models), prefetched)] {
		if e.lifetime.Err() != nil || (e.o.ModelMemory > 0 && e.resident.Load() > e.o.ModelMemory/2) {
			break
		}
		if err := i.ready(e.lifetime); err != nil && !errors.Is(err, ErrClosed) {
			e.unrecovered.Add(1)
		}
		tried++
	}
	e.o.Log.Info("models loaded", zap.Int("loaded", tried-int(e.unrecovered.Load())), zap.Int64("not_recovered", e.unrecovered.Load()),
		zap.Int("models", len(models)), zap.Duration("took", e.o.Now().Sub(started)))
}

// relieve asks for models to be let go when their states take too much.
func (e *Engine) relieve() {
	if e.o.ModelMemory > 0 && e.resident.Load() > e.o.ModelMemory {
		select {
		case e.pressure <- struct{}{}:
		default: // Asked already.
		}
	}
}

// hibernateIdle lets go of the models that were not used for the longest,
// until the rest takes 9/10 of what it may.
func (e *Engine) hibernateIdle() {
	limit := e.o.ModelMemory
	if limit <= 0 || e.resident.Load() <= limit {
		return
	}
	type idle struct {
		*instance
		used int64
	}
	var candidates []idle
	for _, i := range e.instances() {
		if i.bytes.Load() > 0 {
			candidates = append(candidates, idle{i, i.used.Load()})
		}
	}
	slices.SortFunc(candidates, func(a, b idle) int { return cmp.Compare(a.used, b.used) })
	for _, i := range candidates {
		if e.resident.Load() <= limit-limit/10 {
			return
		}
		if i.hibernate() {
			e.hibernations.Add(1)
		}
	}
}

// hibernate lets go of the model's state, unless somebody has it or it is too
// far ahead of its newest snapshot: then it asks for one, and is let go after
// it. It tells whether the state is gone.
func (i *instance) hibernate() bool {
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.gate.running || i.gate.asked > 0 || i.gate.snapshot || i.gate.snapshots > 0 || len(i.gate.waiting) > 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.mu.learner == nil || i.mu.broken != nil:
		return false
	case i.mu.sequence-i.snapshotAt.Load() > replayLimit:
		if i.gate.shut == nil {
			i.gate.snapshot = true
			i.wake()
		}
		return false
	}
	i.mu.stats = i.mu.learner.Stats()
	i.mu.learner = nil
	i.engine.resident.Add(-i.bytes.Swap(0))
	return true
}

// retire takes a model that is being deleted out of memory, after any load that
// is on its way, and lets none begin.
func (i *instance) retire(gone error) {
	i.mu.Lock()
	i.mu.gone = gone
	l := i.mu.loading
	i.mu.Unlock()
	if l != nil {
		<-l.done
	}
	i.mu.Lock()
	i.mu.learner = nil
	i.mu.Unlock()
	i.engine.resident.Add(-i.bytes.Swap(0))
	i.addPending(-i.pending.Load())
}

// settleMemory brings the sizes of the models that were used up to date and
// lets go of what is too much.
func (e *Engine) settleMemory(since time.Time) {
	for _, i := range e.instances() {
		if i.bytes.Load() > 0 && i.used.Load() >= since.UnixNano() {
			i.measure()
		}
	}
	e.hibernateIdle()
}
